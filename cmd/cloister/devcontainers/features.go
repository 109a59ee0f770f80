package devcontainers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cloister/cmd/cloister/cli"
	"cloister/devcontainer"
	"cloister/devcontainer/features"
	"cloister/devcontainer/pull"
	"cloister/internal/xdg"
	"cloister/workspace"

	"golang.org/x/term"
)

// mostRounds bounds how deep features depend on each other.
const mostRounds = 16

// featureStore is where the features of registries are kept.
func Features(d xdg.Dirs) features.Store {
	return features.OpenStore(filepath.Join(d.Data, "features"))
}

// askSources asks about the sources of features that no one named. Without a terminal no
// one is asked, and they stay refused.
func (a *Commands) askSources(unknown []features.Ref) ([]string, error) {
	if len(unknown) == 0 || !term.IsTerminal(int(a.Stdin.Fd())) {
		return nil, nil
	}
	by := map[string][]string{}
	var sources []string
	for _, r := range unknown {
		if by[r.Source()] == nil {
			sources = append(sources, r.Source())
		}
		by[r.Source()] = append(by[r.Source()], r.String())
	}
	slices.Sort(sources)
	var agreed []string
	for _, s := range sources {
		list := slices.Compact(slices.Sorted(slices.Values(by[s])))
		yes, err := a.agrees("Features of " + s + " are of a source that you did not name: " + strings.Join(list, ", ") +
			".\nFetch them from there?")
		if err != nil {
			return nil, err
		}
		if yes {
			agreed = append(agreed, s+"/*")
		}
	}
	return agreed, nil
}

// agrees asks a question at the terminal. No answer is no.
func (a *Commands) agrees(question string) (bool, error) {
	if err := a.Out.Flush(); err != nil {
		return false, fmt.Errorf("write the answer: %w", err)
	}
	fmt.Fprint(a.Stderr, question+" [y/N] ")
	if a.Answers == nil {
		a.Answers = bufio.NewReader(a.Stdin)
	}
	answer, _ := a.Answers.ReadString('\n')
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))), nil
}

// withFeatures fetches the features of registries that are not here, with all that they
// depend on. Pin writes down the digests of those that have none, which a person is about
// to agree to; otherwise they are an error.
func (a *Commands) withFeatures(ctx context.Context, f flags, l lookedAt, pin bool) (lookedAt, error) {
	d, err := a.Dirs()
	if err != nil {
		return l, err
	}
	store := Features(d)
	for range mostRounds {
		if len(l.Absent) == 0 {
			return l, nil
		}
		pinned := features.Lock{}
		for _, one := range l.Absent {
			if one.Digest == "" && !pin {
				err := fmt.Errorf("the feature %s is pinned to no digest", one.ID)
				return l, cli.Hinted(err, "agree to it: cloister devcontainer trust")
			}
			entry, err := a.fetchFeature(ctx, store, l.project, one)
			if err != nil {
				return l, fmt.Errorf("feature %s: %w", one.ID, err)
			}
			if one.Digest == "" {
				pinned[one.ID] = entry
				a.Notice("cloister: %s is pinned to %s", one.ID, entry.Integrity)
			}
		}
		if len(pinned) > 0 {
			if err := l.Pin(pinned); err != nil {
				return l, err
			}
		}
		if l, err = a.look(f, []string{l.path()}); err != nil {
			return l, err
		}
	}
	return l, errors.New("the features depend on each other too deeply")
}

// fetchFeature gets a feature in a cloister of its own, which reaches its registry, and
// keeps it.
func (a *Commands) fetchFeature(
	ctx context.Context, store features.Store, p workspace.Project, one devcontainer.Absent,
) (features.Locked, error) {
	var none features.Locked
	ref, err := features.ParseRef(one.ID)
	if err != nil {
		return none, err
	}
	at := ref.String()
	if one.Digest != "" {
		at = ref.At(one.Digest) // whatever the version leads to now
	}
	a.Slow("fetching " + at)
	out, err := a.SelfInside(ctx, []string{
		"--project", string(p.Root), "--devcontainer=none", "--mode", "enforce",
		"--name", "feature-" + strconv.Itoa(os.Getpid()), "--allow", ref.Registry(),
	}, pull.Most, pull.Name, at)
	var answer pull.Answer
	if err != nil {
		return none, err
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return none, fmt.Errorf("fetch it: %w", err)
	}
	if answer.Error != "" {
		return none, errors.New(answer.Error)
	}
	digest := one.Digest
	if digest == "" {
		digest = features.Digest(answer.Packed.Manifest)
	}
	if err := store.Put(digest, answer.Packed); err != nil {
		return none, err
	}
	return features.Locked{Resolved: ref.At(digest), Integrity: digest}, nil
}
