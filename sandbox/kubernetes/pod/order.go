package pod

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"

	"cloister/internal/exactjson"
)

// Run is what RoleRun executes. It comes on the standard input, before what is the command's: the arguments of a
// process are shown to every user of its host, and API servers log those of an exec.
type Run struct {
	ID   string   `json:"id"` // for RoleSignal
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	// Processes bounds those of the user on the node, of all pods together: a cluster has no
	// bound of one pod's. 0: none.
	Processes int64 `json:"processes,omitempty"`
	// Columns and Rows are the size of the command's terminal, which kubectl passes on later than it begins. 0: none.
	Columns uint16 `json:"columns,omitempty"`
	Rows    uint16 `json:"rows,omitempty"`
}

// A terminal gives a line of at most 4,095 bytes to a program (termios(3)), and each by itself: so no more is read
// than was asked for, of a pipe too.
const (
	lineOf  = 1000
	digits  = 8
	maxText = 8 << 20 // the kernel takes 6 MiB of words and environment (execve(2))
)

// Text is a Run on its way.
func (r Run) Text() ([]byte, error) {
	text, err := exactjson.Marshal(r)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	for rest := base64.StdEncoding.EncodeToString(text); rest != ""; {
		n := min(lineOf, len(rest))
		body.WriteString(rest[:n] + "\n")
		rest = rest[n:]
	}
	if body.Len() > maxText {
		return nil, fmt.Errorf("words and environment of the command are longer than %d bytes", maxText)
	}
	return append(fmt.Appendf(nil, "%0*d\n", digits, body.Len()), body.Bytes()...), nil
}

// read is the way back. What follows in r stays there.
func read(r io.Reader) (run Run, err error) {
	head := make([]byte, digits+1)
	if _, err := io.ReadFull(r, head); err != nil {
		return run, err
	}
	n, err := strconv.ParseUint(string(head[:digits]), 10, 32)
	if err != nil || n > maxText || head[digits] != '\n' {
		return run, fmt.Errorf("%q is no length of it", head)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return run, err
	}
	text, err := base64.StdEncoding.DecodeString(string(body))
	if err != nil {
		return run, err
	}
	return run, exactjson.Unmarshal(text, &run)
}
