package metadata

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// ports are those to be forwarded, each once: a number, or HOST:PORT.
func ports(entries []Entry) any {
	var out []any
	seen := map[string]bool{}
	for _, e := range entries {
		list, ok := e["forwardPorts"].([]any)
		if !ok && truthy(e["forwardPorts"]) {
			list = []any{e["forwardPorts"]}
		}
		for _, p := range list {
			name := fmt.Sprint(p)
			if _, text := p.(string); !text {
				name = "localhost:" + name
			}
			if seen[name] {
				continue
			}
			seen[name] = true
			if n := localPort(name); n >= 0 {
				p = json.Number(strconv.Itoa(n))
			}
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

var local = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`localhost:\d+`) })

func localPort(name string) int {
	if !local().MatchString(name) || len(name) < 10 {
		return -1
	}
	digits := strings.TrimLeft(name[10:], " ")
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}

// requirements are the greatest of each, in bytes where they are sizes.
func requirements(entries []Entry) any {
	var cpus, memory, storage float64
	var gpu any
	for _, e := range entries {
		// As in the reference, an entry without a word of a GPU takes back a false one.
		r, _ := e["hostRequirements"].(map[string]any)
		cpus = math.Max(cpus, number(r["cpus"]))
		memory = math.Max(memory, Size(r["memory"]))
		storage = math.Max(storage, Size(r["storage"]))
		gpu = greater(gpu, r["gpu"])
	}
	if cpus == 0 && memory == 0 && storage == 0 && !truthy(gpu) {
		return nil
	}
	out := map[string]any{"cpus": plain(cpus)}
	for k, n := range map[string]float64{"memory": memory, "storage": storage} {
		if n > 0 {
			out[k] = string(plain(n))
		}
	}
	if gpu != nil {
		out["gpu"] = gpu
	}
	return out
}

// greater is what two entries together ask of a GPU.
func greater(a, b any) any {
	switch {
	case a == nil || a == false:
		return b
	case b == nil || b == false:
		return a
	case a == "optional" && b == "optional":
		return "optional"
	}
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	out := map[string]any{}
	if cores := math.Max(number(x["cores"]), number(y["cores"])); cores > 0 {
		out["cores"] = plain(cores)
	}
	if memory := math.Max(Size(x["memory"]), Size(y["memory"])); memory > 0 {
		out["memory"] = string(plain(memory))
	}
	return out
}

func number(v any) float64 {
	switch t := v.(type) {
	case json.Number:
		f, _ := t.Float64()
		return f
	case float64:
		return t
	}
	return 0
}

var size = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d+)([tgmk]b)?$`) })

// Size is the bytes of a size such as 8gb; 0 for what is none.
func Size(v any) float64 {
	text, ok := v.(string)
	m := size().FindStringSubmatch(text)
	if !ok || m == nil {
		return 0
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0
	}
	if m[2] != "" {
		n *= map[byte]float64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30, 't': 1 << 40}[m[2][0]]
	}
	return n
}
