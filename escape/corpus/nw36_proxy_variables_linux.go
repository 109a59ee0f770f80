package corpus

import (
	"net/http"
	"net/url"
	"time"

	"cloister/escape"
)

func nw36() escape.Case {
	return escape.Case{
		ID: "NW-36", Class: "proxy variables", Attack: "clients without a proxy, with NO_PROXY=*, and with a proxy of their own",
		Source: "every proxy that is only a variable", Layers: []string{"net", "policy"},
		Tries: func(in escape.Inside) []escape.Try {
			fetch := func(proxy func(*http.Request) (*url.URL, error)) func() error {
				return func() error {
					target := "http://denied36.test/"
					if in.Control {
						target = "http://" + sink(in) + "/"
					}
					client := &http.Client{Timeout: 4 * time.Second, Transport: &http.Transport{Proxy: proxy}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
					res, err := client.Get(target) // the client has a time-out
					if err != nil {
						return plain(err)
					}
					defer res.Body.Close()
					if res.StatusCode == http.StatusForbidden {
						return escape.ErrRefused
					}
					return nil
				}
			}
			return []escape.Try{
				net1("no proxy", fetch(nil)),
				net1("the cloister's proxy", fetch(func(*http.Request) (*url.URL, error) {
					if in.Control {
						return nil, nil
					}
					return url.Parse("http://" + proxyAt)
				})),
				net1("the host as a proxy", fetch(func(*http.Request) (*url.URL, error) {
					if in.Control {
						return nil, nil
					}
					return url.Parse("http://127.0.0.1:" + itoa(in.Port))
				})),
			}
		},
	}
}
