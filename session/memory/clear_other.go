//go:build !linux

package memory

import (
	"errors"
	"os"
)

func memoryFile() (*os.File, error) { return nil, errors.ErrUnsupported }

func unchangeable(*os.File) error { return errors.ErrUnsupported }

func held(*os.File) error { return errors.ErrUnsupported }

func reopened([]*os.File) ([]*os.File, error) { return nil, errors.ErrUnsupported }
