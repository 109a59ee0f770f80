package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloister/config"
	"cloister/internal/hint"
	"cloister/policy"
)

// Expected are a file's tests as the judge takes them.
func Expected(tests []config.PolicyTest) ([]policy.Test, error) {
	out := make([]policy.Test, 0, len(tests))
	for _, t := range tests {
		effect, err := policy.ParseEffect(string(t.Want))
		if err != nil {
			return nil, err
		}
		test := policy.Test{Name: t.Name, Connect: t.Connect, Want: effect}
		if t.Request != "" {
			if test.Connect, test.HTTP, err = requested(t); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", t.Place.File, t.Place.Line, err)
			}
		}
		out = append(out, test)
	}
	return out, nil
}

// requested reads METHOD URL.
func requested(t config.PolicyTest) (string, *policy.HTTP, error) {
	method, url, ok := strings.Cut(t.Request, " ")
	if !ok || !strings.Contains(url, "://") {
		return "", nil, hint.Usage("such as request: GET https://api.example.com/repos", "request %q: want METHOD URL",
			t.Request)
	}
	var headers []string
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		headers = append(headers, name+": "+t.Headers[name])
	}
	req, err := typedDestination(url, method, headers)
	if err != nil {
		return "", nil, err
	}
	q := HTTP(req)
	return req.Connect, &q, nil
}
