// Package sshkey opens what logs in to servers by SSH on a person's behalf.
//
// Promise: only what is named is opened: the person's agent, one key of it, or one
// file of theirs that no one else can read, and that no one else could have put there or
// led elsewhere. No key is copied anywhere.
//
// It does not decide where one may be used (a rule does), and speaks with no
// server.
//
// Most readers want Open.
package sshkey

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"cloister/host/resolve"
)

const (
	// mostKey is longer than any key that is written by a program.
	mostKey = 64 << 10
	// agentTime bounds all that an agent is asked for: it may ask a person.
	agentTime = time.Minute
)

// Open gives what name stands for: agent, agent:KEY with a key's fingerprint or
// comment, a path from the root or from ~ of a private key, or of an agent's socket.
// socket is the person's own agent's, empty for none; host says whose word a path is. Close
// is called when the signers are needed no more.
func Open(
	ctx context.Context, host *resolve.Resolver, name, home, socket string,
) (signers []ssh.Signer, closing func(), err error) {
	if name == "agent" || strings.HasPrefix(name, "agent:") {
		if socket == "" {
			return nil, nil, errors.New("the guardian was started where SSH_AUTH_SOCK named no agent: start it anew from " +
				"where it does, or write the path of the agent's socket")
		}
		return ask(ctx, socket, strings.TrimPrefix(strings.TrimPrefix(name, "agent"), ":"))
	}
	path := name
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		path = filepath.Join(home, rest)
	}
	found, err := host.Settings(path)
	if err != nil {
		return nil, nil, err // it names the path
	}
	path = found.Real
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	if info.Mode().Type() == fs.ModeSocket {
		return ask(ctx, path, "")
	}
	signer, err := read(path, info)
	if err != nil {
		return nil, nil, err
	}
	return []ssh.Signer{signer}, func() {}, nil
}

// ask gives the keys of an agent, or the one that is named.
func ask(ctx context.Context, socket, only string) ([]ssh.Signer, func(), error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the agent: %w", err)
	}
	closing := func() { _ = conn.Close() }
	_ = conn.SetDeadline(time.Now().Add(agentTime)) // fails on a closed connection only
	client := agent.NewClient(conn)
	keys, err := client.List()
	var signers []ssh.Signer
	if err == nil {
		signers, err = client.Signers()
	}
	if err != nil {
		closing()
		return nil, nil, fmt.Errorf("ask the agent: %w", err)
	}
	if only != "" {
		signers = slices.DeleteFunc(signers, func(s ssh.Signer) bool { return !named(s.PublicKey(), keys, only) })
	}
	if len(signers) == 0 {
		closing()
		return nil, nil, errors.New("the agent has no such key: see ssh-add -l")
	}
	return signers, closing, nil
}

// named reports whether a key has that fingerprint or comment.
func named(key ssh.PublicKey, keys []*agent.Key, name string) bool {
	if ssh.FingerprintSHA256(key) == name {
		return true
	}
	return slices.ContainsFunc(keys, func(k *agent.Key) bool {
		return k.Comment == name && slices.Equal(k.Marshal(), key.Marshal())
	})
}

// read reads a private key.
func read(path string, info fs.FileInfo) (ssh.Signer, error) {
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s can be read by others: chmod 600 %s", path, path)
	case info.Size() > mostKey:
		return nil, fmt.Errorf("%s is too long for a key", path)
	}
	text, err := resolve.ReadFile(path, mostKey)
	if err != nil {
		return nil, err // it names the path
	}
	signer, err := ssh.ParsePrivateKey(text)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		return nil, fmt.Errorf("%s has a passphrase: ssh-add it, and write identity: agent", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no private key", path)
	}
	return signer, nil
}

// Guard is a signer that asks before each signature, and gives none after an error.
func Guard(s ssh.Signer, before func(ssh.PublicKey) error) ssh.Signer {
	g := guarded{s, before}
	by, ok := s.(ssh.AlgorithmSigner)
	if !ok {
		return g
	}
	a := guardedAlgorithms{g, by}
	if list, ok := s.(ssh.MultiAlgorithmSigner); ok {
		return guardedList{a, list.Algorithms}
	}
	return a
}

type guarded struct {
	ssh.Signer
	before func(ssh.PublicKey) error
}

func (g guarded) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	if err := g.before(g.PublicKey()); err != nil {
		return nil, err
	}
	return g.Signer.Sign(rand, data) // the signer's own
}

// guardedAlgorithms knows more than one way to sign.
type guardedAlgorithms struct {
	guarded
	by ssh.AlgorithmSigner
}

func (g guardedAlgorithms) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if err := g.before(g.PublicKey()); err != nil {
		return nil, err
	}
	return g.by.SignWithAlgorithm(rand, data, algorithm) // the signer's own
}

// guardedList names the ways.
type guardedList struct {
	guardedAlgorithms
	list func() []string
}

func (g guardedList) Algorithms() []string { return g.list() }
