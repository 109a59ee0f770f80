//go:build cloister_cluster

package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/sandbox/kubernetes"
)

// TestScale measures what this driver costs on a cluster of many pods: a control plane that is real, and nodes that are
// pretended but for one. It writes a page. CLOISTER_SCALE_PODS is how many pods there are at most.
func TestScale(t *testing.T) {
	c := begin(t)
	d := c.driver()
	c.nodes(1000)
	text, err := kubernetes.Described(c.level, spec("true"))
	if err != nil {
		t.Fatal(err)
	}
	var live []string
	var rows []string
	most := 10_000
	if text := os.Getenv("CLOISTER_SCALE_PODS"); text != "" {
		if most, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, most / 10, most / 4, most / 2, most} {
		began, had := time.Now(), len(live)
		for len(live) < n {
			live = append(live, c.fill(text, len(live), min(500, n-len(live)))...)
		}
		rate := float64(n-had) / time.Since(began).Seconds()
		took := c.sweeps(d, live)
		asks := c.asks(text)
		at := time.Now()
		if o := c.run(d, spec("true"), &served{}, "", nil); o.err != nil || o.status.Code != 0 {
			t.Fatalf("%+v", o)
		}
		whole := time.Since(at)
		row := fmt.Sprintf("| %d | %.0f | %.2f s | %.0f / %.0f ms | %.1f s | %d / %d MB |", n, rate, took.Seconds(),
			asks[len(asks)/2].Seconds()*1000, asks[len(asks)-1].Seconds()*1000, whole.Seconds(), c.memory("apiserver"), c.memory("etcd"))
		t.Log(row)
		rows = append(rows, row)
	}
	ends := most / 10
	at := time.Now()
	if err := d.Leftovers(t.Context(), live[ends:]); err != nil {
		t.Error(err)
	}
	took := time.Since(at)
	ending := strings.Count(c.kubectl(nil, "--namespace="+c.level.Namespace, "get", "pods", "--output=jsonpath={.items[*].metadata.deletionTimestamp}"), "Z")
	if ending != ends {
		t.Errorf("%d of %d pods were asked to end", ending, ends)
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		t.Error(err)
	}
	load, _ := os.ReadFile("/proc/loadavg")
	page := `# The kubernetes level beside many pods

Written by ` + "`CLOISTER_SCALE=docs/kubernetes-scale.md script/test kubernetes`" + `: a real API server, etcd (without fsync), scheduler and one node
of Kubernetes 1.35 on ` + strconv.Itoa(runtime.NumCPU()) + ` cores, at a load of ` + strings.Fields(string(load))[0] + `, with 1,000 further nodes and their pods pretended.

| pods | made, by the second | a sweep that finds nothing | a pod asked for and its end, middle / worst of 20 | a session on the real node, whole | API server / etcd |
|---|---|---|---|---|---|
` + strings.Join(rows, "\n") + fmt.Sprintf(`

A sweep that finds %d of the sessions over asks for the end of each in %.1f s, %.0f a second. The largest kubectl had %d MB.
The pretended pods are the driver's own descriptions, and pass the admission policy. Nothing here says what a node does with them.
`, ends, took.Seconds(), float64(ends)/took.Seconds(), usage.Maxrss>>10)
	if to := os.Getenv("CLOISTER_SCALE"); to != "" {
		if err := os.WriteFile(to, []byte(page), 0o644); err != nil {
			t.Error(err)
		}
	}
	t.Log(page)
}

// nodes makes nodes of which none is there.
func (c *cluster) nodes(n int) {
	c.t.Helper()
	for part := range slices.Chunk(slices.Collect(count(0, n)), 500) {
		var items []object
		for _, i := range part {
			items = append(items, object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": "pretended-" + strconv.Itoa(i)},
				"spec": object{"unschedulable": true}})
		}
		c.makeAll(items)
	}
}

func count(from, n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := from; i < from+n && yield(i); i++ {
		}
	}
}

func (c *cluster) makeAll(items []object) {
	c.t.Helper()
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		c.t.Fatal(err)
	}
	c.kubectl(text, "--namespace="+c.level.Namespace, "create", "--validate=false", "--filename=-")
}

// pretended is the driver's own pod under another name.
func (c *cluster) pretended(text []byte, of, node string) object {
	c.t.Helper()
	var p object
	if err := json.Unmarshal(text, &p); err != nil {
		c.t.Fatal(err)
	}
	m := p["metadata"].(object)
	m["name"], m["labels"].(object)["cloister/session"] = "cloister-"+of, of
	p["spec"].(object)["nodeName"] = node
	return p
}

func (c *cluster) fill(text []byte, from, n int) (ids []string) {
	c.t.Helper()
	var items []object
	for i := range count(from, n) {
		of := "pretended" + strconv.Itoa(i)
		ids = append(ids, of)
		items = append(items, c.pretended(text, of, "pretended-"+strconv.Itoa(i%1000)))
	}
	c.makeAll(items)
	return ids
}

// sweeps is a sweep that finds nothing.
func (c *cluster) sweeps(d *kubernetes.Driver, live []string) time.Duration {
	c.t.Helper()
	at := time.Now()
	if err := d.Leftovers(c.t.Context(), live); err != nil {
		c.t.Fatal(err)
	}
	return time.Since(at)
}

// asks are the times of a pod that is asked for and deleted, by kubectl as the driver calls it.
func (c *cluster) asks(text []byte) (out []time.Duration) {
	c.t.Helper()
	user := []string{c.level.Kubectl, "--kubeconfig=" + c.level.Kubeconfig, "--namespace=" + c.level.Namespace}
	for i := range 20 {
		one := c.pretended(text, "asked"+strconv.Itoa(i), "pretended-0")
		delete(one["spec"].(object), "nodeName")
		one["spec"].(object)["schedulerName"] = "none"
		body, err := json.Marshal(one)
		if err != nil {
			c.t.Fatal(err)
		}
		at := time.Now()
		c.must(body, slices.Concat(user, []string{"create", "--validate=false", "--filename=-"})...)
		c.must(nil, slices.Concat(user, []string{"delete", "pod", "cloister-asked" + strconv.Itoa(i), "--wait=false", "--grace-period=1"})...)
		out = append(out, time.Since(at))
	}
	slices.Sort(out)
	return out
}

// memory is what a part of the cluster has, in MB.
func (c *cluster) memory(part string) int {
	c.t.Helper()
	for _, at := range glob(c.t, "/proc/[0-9]*/cmdline") {
		text, err := os.ReadFile(at)
		if words := strings.Split(string(text), "\x00"); err != nil || len(words) < 2 || words[1] != part {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(at), "status"))
		if err != nil {
			c.t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		kb, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			c.t.Fatal(err)
		}
		return kb >> 10
	}
	c.t.Fatalf("no %s runs", part)
	return 0
}
