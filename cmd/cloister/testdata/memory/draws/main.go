// Command draws is Go's part of the story generators: values of each source, seeded before a fork.
package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"log"
	old "math/rand"
	v2 "math/rand/v2"
	"os"
	"runtime"
	"strings"
	"time"
)

func draw(w io.Writer) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	fmt.Fprintf(w, "go.crypto/rand %x\ngo.math/rand %d\ngo.math/rand/v2 %d\n", b, old.Int63(), v2.Uint64())
}

func main() {
	runtime.LockOSThread() // each thread has a generator of its own
	for range 3 {
		draw(io.Discard)
	}
	if err := os.WriteFile("go.ready", nil, 0o600); err != nil {
		log.Fatal(err)
	}
	for {
		if _, err := os.Stat("draw"); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	var out strings.Builder
	for range 1000 {
		draw(&out)
	}
	if err := os.WriteFile("new.go", []byte(out.String()), 0o600); err != nil {
		log.Fatal(err)
	}
	if err := os.Rename("new.go", "go.drawn"); err != nil {
		log.Fatal(err)
	}
	select {} // what it drew is looked at while it runs
}
