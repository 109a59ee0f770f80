package shebang_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cloister/internal/shebang"
)

func TestRead(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct{ text, interpreter, argument string }{
		"plain":               {"#!/bin/sh\necho", "/bin/sh", ""},
		"one argument":        {"#! /usr/bin/env  -S node --x \t\n", "/usr/bin/env", "-S node --x"},
		"tab":                 {"#!\t/bin/sh\t-e\n", "/bin/sh", "-e"},
		"no end of line":      {"#!/bin/sh", "/bin/sh", ""},
		"carriage return":     {"#!/bin/sh\r\n", "/bin/sh\r", ""},
		"no script":           {"\x7fELF", "", ""},
		"nothing":             {"", "", ""},
		"nothing behind it":   {"#! \t\n/bin/sh", "", ""},
		"a NUL":               {"#!/bin/sh\x00more\n", "/bin/sh", ""},
		"a name cut off":      {"#!/" + long + "\n", "", ""},
		"an argument cut off": {"#!/bin/sh " + long + "\n", "/bin/sh", strings.Repeat("x", 245)},
	} {
		got, err := shebang.Read(bytes.NewReader([]byte(c.text)))
		if want := (shebang.Line{Interpreter: c.interpreter, Argument: c.argument}); err != nil || got != want {
			t.Errorf("%s: %+v, %v, not %+v", name, got, err, want)
		}
	}
}

func TestReadTellsErrors(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if got, err := shebang.Read(dir); err == nil {
		t.Errorf("a folder is read as %+v", got)
	}
}

// The kernel is asked: the interpreter prints its arguments, and the script is one of them.
func TestReadAsTheKernelDoes(t *testing.T) {
	dir := t.TempDir()
	for name, first := range map[string]string{
		"plain": "#!/bin/echo", "blanks": "#! \t/bin/echo  a  b \t", "long": "#!/bin/echo " + strings.Repeat("x", 300),
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(first+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		line, err := shebang.Read(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(context.Background(), file).Output()
		if err != nil {
			t.Fatal(err)
		}
		want := file
		if line.Argument != "" {
			want = line.Argument + " " + file
		}
		if got := strings.TrimSuffix(string(out), "\n"); line.Interpreter != "/bin/echo" || got != want {
			t.Errorf("%s: the kernel gives %q, and %+v is read", name, got, line)
		}
	}
}
