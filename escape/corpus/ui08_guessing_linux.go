package corpus

import (
	"cloister/escape"
	"cloister/escape/browser"
	"fmt"
)

func ui08() escape.Case {
	return escape.Case{
		ID: "UI-08", Class: "token guessing", Attack: "guess links and words by the thousand, side by side; use a cookie and a word of before a restart",
		Source: "UI-08", Layers: []string{"window"},
		Host: windowed(func(v *window) []escape.Finding {
			counts := map[int]int{}
			for n := range 2000 {
				body := fmt.Sprintf(`{"link":"%043d","public":""}`, n)
				res := browser.Ask(v.at, "POST /login/link HTTP/1.1\r\nHost: "+v.at+"\r\nOrigin: http://"+v.at+"\r\nContent-Type: application/json\r\nContent-Length: "+itoa(len(body))+"\r\n\r\n"+body)
				counts[res.Status]++
			}
			words := 0
			for n := range 1000 {
				if res := browser.Ask(v.at, v.request("GET", "/v1/status", [2]string{"Cloister-Window", fmt.Sprintf("%043d", n)})); res.Status == 401 {
					words++
				}
			}
			good, err := v.link()
			if err == nil {
				err = v.enter(good)
			}
			out := []escape.Finding{
				found("2,000 links: nobody is let in, and soon nobody is told why", counts[401]+counts[429] == 2000 && counts[429] > 1900, "%v", counts),
				found("1,000 words", words == 1000, "%d", words),
				found("control: a good link works in between", err == nil, "%v", err),
				v.reloads(),
			}
			stop, start := v.r.cloister("guardian", "stop"), v.r.cloister("guardian", "start")
			if _, err := v.link(); err != nil || stop.Status+start.Status != 0 {
				return escape.NoHost("restart the guardian", fmt.Errorf("%w: %s %s", err, stop.Stderr, start.Stderr))
			}
			return append(out, v.refused("cookie and word of before a restart", v.request("GET", "/v1/status"), 401, 421))
		}),
	}
}
