// Package main is the program inside, alone.
package main

import (
	"os"

	"cloister/sandbox/docker/inside"
)

func main() { os.Exit(inside.Main(os.Args[1:])) }
