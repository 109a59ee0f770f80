package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes"
)

// object is JSON.
type object = map[string]any

// swept is a pod of the double's list.
type swept struct {
	Name, Session, Instance string
	Other                   bool // which the selector names all the same
}

func readPods(dir string) (out []swept, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "pods"))
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

func writePods(dir string, list []swept) error {
	text, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "pods"), text, 0o600)
	}
	return err
}

// doublePage is a page of the list, as the API has it.
func doublePage(dir, path string) int {
	say := func(text string) int { fmt.Fprintln(os.Stderr, text); return 1 }
	u, err := url.Parse(path)
	if err == nil && u.Path == "/apis/agents.x-k8s.io/v1beta1/namespaces/agents/sandboxes" {
		if dir = filepath.Join(dir, "sandboxes"); !isThere(dir) {
			return say("Error from server (NotFound): the server could not find the requested resource")
		}
	} else if err != nil || u.Path != "/api/v1/namespaces/agents/pods" {
		return say("Error from server (NotFound): the server could not find the requested resource")
	}
	all, err := readPods(dir)
	if err != nil {
		return say(err.Error())
	}
	_, instance, _ := strings.Cut(u.Query().Get("labelSelector"), "cloister/instance=")
	all = slices.DeleteFunc(all, func(p swept) bool { return p.Instance != instance && !p.Other })
	limit, _ := strconv.Atoi(u.Query().Get("limit"))
	from, _ := strconv.Atoi(u.Query().Get("continue"))
	to := min(from+limit, len(all))
	next := ""
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	items := []object{}
	for _, p := range all[from:to] {
		items = append(items, object{"metadata": object{"name": p.Name,
			"labels": object{"cloister/instance": p.Instance, "cloister/session": p.Session}}})
	}
	err = json.NewEncoder(os.Stdout).Encode(object{"kind": "PodList", "metadata": object{"continue": next}, "items": items})
	if err != nil {
		return say(err.Error())
	}
	return 0
}

func isThere(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func doubleDelete(dir string, words []string) int {
	all, err := readPods(dir)
	if err == nil && slices.Contains(words, "--all") {
		err = writePods(dir, nil)
	} else if err == nil {
		err = writePods(dir, slices.DeleteFunc(all, func(p swept) bool { return slices.Contains(words, p.Name) }))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestDoubleSweep: of many pods those go whose sessions are over, and no others: not a living session's, not
// another instance's that a server names all the same, and no name that is a flag of kubectl's.
func TestDoubleSweep(t *testing.T) {
	w := build(t, false, pulling)
	var all []swept
	var want []string
	var live []string
	for i := range 1234 {
		of := "s" + strconv.Itoa(i)
		all = append(all, swept{Name: "cloister-" + of, Session: of, Instance: "me"})
		if i%100 == 7 {
			live, want = append(live, strings.ToUpper(of)), append(want, "cloister-"+of)
		}
	}
	for _, p := range []swept{
		{"cloister-x", "x", "them", true}, {"--all", "y", "me", true}, {"-A", "-A", "me", true}, {"other", "z", "me", true},
		{"cloister-", "", "me", true},
	} {
		all, want = append(all, p), append(want, p.Name)
	}
	if err := writePods(w.dir, all); err != nil {
		t.Fatal(err)
	}
	// What a server answers that is busy, and one that has forgotten the page.
	for i, a := range []string{tooMany, "Error from server (Expired): The provided continue parameter is too old", unavailable} {
		w.set("once-get-"+strconv.Itoa(i), a)
	}
	w.set("once-delete-0", conflict)
	if err := w.driver.Leftovers(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	left, err := readPods(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range left {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("left are %v\nwant %v", names, want)
	}
	if n := w.count("delete"); n != 14 {
		t.Errorf("1,221 deletions were %d calls", n)
	}
	w.set("refuse-get", forbidden)
	if err := w.driver.Leftovers(t.Context(), live); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Error(err)
	}
}

// TestDoubleSweepSandboxes: what sessions left that were made by agent-sandbox goes with its Sandboxes, those without a pod
// and pods without one too, also when the pods are made by this program meanwhile.
func TestDoubleSweepSandboxes(t *testing.T) {
	for _, maker := range []string{kubernetes.MakerSandbox, kubernetes.MakerPod} {
		t.Run(maker, func(t *testing.T) { sweepSandboxes(t, maker) })
	}
}

func sweepSandboxes(t *testing.T, maker string) {
	w := build(t, false, pulling)
	bySandbox(w)
	w.level.Maker = maker
	w.remake()
	lists := map[string][]swept{
		w.dir:                             {{"cloister-a", "a", "me", false}, {"cloister-b", "b", "me", false}, {"cloister-l", "l", "me", false}},
		filepath.Join(w.dir, "sandboxes"): {{"cloister-a", "a", "me", false}, {"cloister-c", "c", "me", false}, {"cloister-l", "l", "me", false}},
	}
	for dir, list := range lists {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := writePods(dir, list); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.driver.Leftovers(t.Context(), []string{"L"}); err != nil {
		t.Fatal(err)
	}
	for dir := range lists {
		if left, err := readPods(dir); err != nil || len(left) != 1 || left[0].Name != "cloister-l" {
			t.Errorf("left are %v, %v", left, err)
		}
	}
}

// TestDoubleSweepYoung: a sweep that was told which sessions live before one began leaves the pod of that
// one alone, and removes it when its shim is gone, with the folder that it left.
func TestDoubleSweepYoung(t *testing.T) {
	w := build(t, true, running)
	if err := writePods(w.dir, []swept{{"cloister-s1", "s1", "me", false}}); err != nil {
		t.Fatal(err)
	}
	leaves := func(want int) {
		t.Helper()
		if err := w.driver.Leftovers(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if left, err := readPods(w.dir); err != nil || len(left) != want {
			t.Errorf("left are %v, %v", left, err)
		}
	}
	_, _, _, err := w.run(w.staying(), func(sandbox.Box) {
		leaves(1)
		w.set("over", "") // its command, which was not to be over before
	})
	if err != nil {
		t.Error(err)
	}
	if err := writePods(w.dir, []swept{{"cloister-s1", "s1", "me", false}}); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(w.folder, "S1")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	leaves(0)
	if _, err := os.Stat(left); err == nil {
		t.Error("its folder is left")
	}
}
