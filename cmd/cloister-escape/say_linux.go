package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// say sends texts as they are to tls:NAME[:PORT], ech:HOST:PORT/INNER/CONFIG (an encrypted
// ClientHello with the hex of a configuration of one's own), tcp:HOST:PORT or unix:PATH, each after
// the answer to the one before, and prints the answers. ${NAME} is a variable of
// the environment; ${base64:NAME}, ${hex:NAME} and ${percent:NAME} are forms of it, ${byte:81} is that byte.
// A first word "slowly" sends byte by byte.
func say(words []string) error {
	slowly := len(words) > 0 && words[0] == "slowly"
	if slowly {
		words = words[1:]
	}
	if len(words) < 2 {
		return errors.New("say: to whom, and what?")
	}
	c, err := reach(words[0])
	if err != nil {
		fmt.Println("error:", err)
		return nil
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	r := bufio.NewReader(c)
	for _, text := range words[1:] {
		text = os.Expand(text, form)
		_, body, _ := strings.Cut(text, "\r\n\r\n")
		text = strings.Replace(text, "Content-Length: auto", fmt.Sprint("Content-Length: ", len(body)), 1)
		if err := send(c, []byte(text), slowly); err != nil {
			fmt.Println("error:", err)
			return nil
		}
		if err := hear(r, text); err != nil {
			fmt.Println("error:", err)
			return nil
		}
	}
	return nil
}

func reach(to string) (net.Conn, error) {
	kind, at, _ := strings.Cut(to, ":")
	if kind == "ech" {
		return reachHidden(at)
	}
	if kind != "tls" {
		return net.DialTimeout(kind, at, 10*time.Second)
	}
	name, port, ok := strings.Cut(at, ":")
	if !ok {
		port = "443"
	}
	c, err := net.DialTimeout("tcp", net.JoinHostPort(name, port), 10*time.Second)
	if err != nil {
		return nil, err
	}
	// an attacker looks at no certificate
	t := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err := errors.Join(t.SetDeadline(time.Now().Add(15*time.Second)), t.Handshake()); err != nil {
		c.Close()
		return nil, err
	}
	return t, nil
}

func reachHidden(at string) (net.Conn, error) {
	words := strings.Split(at, "/")
	if len(words) != 3 {
		return nil, errors.New("ech:HOST:PORT/INNER/CONFIG")
	}
	list, err := hex.DecodeString(words[2])
	if err != nil {
		return nil, err
	}
	c, err := net.DialTimeout("tcp", words[0], 10*time.Second)
	if err != nil {
		return nil, err
	}
	t := tls.Client(c, &tls.Config{
		ServerName: words[1], MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"},
		EncryptedClientHelloConfigList:      list,
		EncryptedClientHelloRejectionVerify: func(tls.ConnectionState) error { return nil },
	})
	if err := errors.Join(t.SetDeadline(time.Now().Add(15*time.Second)), t.Handshake()); err != nil {
		c.Close()
		return nil, err
	}
	return t, nil
}

func form(name string) string {
	kind, name, ok := strings.Cut(name, ":")
	if !ok {
		return os.Getenv(kind)
	}
	value := os.Getenv(name)
	switch kind {
	case "byte":
		one, _ := hex.DecodeString(name) // what is none is nothing
		return string(one)
	case "base64":
		return base64.StdEncoding.EncodeToString([]byte("user:" + value))
	case "hex":
		return hex.EncodeToString([]byte(value))
	case "percent":
		return url.QueryEscape(strings.ReplaceAll(value, "_", "%5F"))
	}
	return ""
}

func send(c net.Conn, text []byte, slowly bool) error {
	if !slowly {
		_, err := c.Write(text)
		return err
	}
	for _, b := range text {
		if _, err := c.Write([]byte{b}); err != nil {
			return err
		}
	}
	return nil
}

// hear prints one whole answer.
func hear(r *bufio.Reader, text string) error {
	method, _, _ := strings.Cut(text, " ")
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return err
	}
	fmt.Println(res.Proto, res.Status)
	if err := res.Header.Write(os.Stdout); err != nil {
		return err
	}
	body, err := io.ReadAll(res.Body)
	fmt.Printf("\n%s\n%q\n", body, res.Trailer)
	return errors.Join(err, res.Body.Close())
}

// search looks for a text, given as hex of its complement so that it stands
// nowhere, in plain and in other forms: in its environment, in what /proc tells of
// every process, and in all files below the given folders. It prints where.
func search(words []string) error {
	if len(words) < 1 {
		return errors.New("search: for what?")
	}
	text, err := hex.DecodeString(words[0])
	if err != nil {
		return err
	}
	for i := range text {
		text[i] = ^text[i]
	}
	forms := formsOf(text)
	found := 0
	look := func(path string, data []byte) {
		for name, f := range forms {
			if bytes.Contains(data, f) {
				fmt.Println("found", name, "in", path)
				found++
			}
		}
	}
	for _, e := range os.Environ() {
		look("the environment", []byte(e))
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, p := range procs {
		for _, name := range []string{"environ", "cmdline", "comm"} {
			if data, err := os.ReadFile(filepath.Join(p, name)); err == nil {
				look(p+"/"+name, data)
			}
		}
	}
	files := 0
	for _, dir := range words[1:] {
		// what cannot be read holds nothing for it
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			if info, err := d.Info(); err != nil || info.Size() > 4<<20 {
				return nil
			}
			if data, err := os.ReadFile(path); err == nil {
				files++
				look(path, data)
			}
			return nil
		})
	}
	fmt.Println("looked at", files, "files,", len(procs), "processes:", found, "found")
	return nil
}

// formsOf are a text and how it looks in other clothes.
func formsOf(text []byte) map[string][]byte {
	back := slices.Clone(text)
	slices.Reverse(back)
	out := map[string][]byte{
		"plain": text, "reversed": back, "hex": []byte(hex.EncodeToString(text)),
		"HEX": bytes.ToUpper([]byte(hex.EncodeToString(text))),
	}
	// Of base64 the middle, whatever stands before.
	for shift := range 3 {
		b := base64.StdEncoding.EncodeToString(append(make([]byte, shift), text...))
		out[fmt.Sprintf("base64+%d", shift)] = []byte(b[4 : len(b)-4])
	}
	return out
}

// mcp is an MCP server over standard input and output with the tools read and evil.
func mcp() error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &req) != nil || req.ID == nil {
			continue
		}
		result := `{}`
		switch req.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"local","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"read","inputSchema":{"type":"object"}},` +
				`{"name":"evil","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			result = fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, "called "+req.Params.Name)
		}
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", req.ID, result)
	}
	return in.Err()
}

// requests asks a host so many times for an address with a long path, on connections
// that stay.
func requests(words []string) error {
	if len(words) != 2 {
		return errors.New("requests: of whom, and how many?")
	}
	n, err := strconv.Atoi(words[1])
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		Timeout: 20 * time.Second}
	path := strings.Repeat("p", 2000)
	for i := range n {
		res, err := client.Get("https://" + words[0] + "/ok/" + strconv.Itoa(i) + path)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %w", res.Status, err)
		}
	}
	return nil
}
