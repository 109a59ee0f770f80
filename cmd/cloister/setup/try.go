package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"cloister/agent"
	"cloister/agent/probe"
	"cloister/cmd/cloister/cli"
)

// try sends one request with the agent's credential from inside a cloister of this
// project, and says what came of it. An error means that the credential was refused;
// whatever else is in the way is shown, and left to the person.
func (a *Commands) try(ctx context.Context, login agent.Credential) error {
	if login.Check == "" {
		return nil
	}
	p, why := a.tryInside(ctx, login)
	switch {
	case why != "":
		a.Notice("not tried: %s", why)
	case p.Ours && p.Status < http.StatusInternalServerError:
		a.Notice("the border refuses it: %s", p.Error)
		a.Notice("hint: cloister policy explain %s", login.Host)
	case p.Ours, p.Status == 0: // the guardian says why it came to none
		a.Notice("not tried: %s cannot be reached: %s", login.Host, p.Error)
	case p.Status >= 200 && p.Status < 300:
		a.Line("tried: %s takes the credential", login.Host)
	case p.Status == http.StatusBadRequest, p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden:
		err := fmt.Errorf("setup: %s refuses the credential: %d %s", login.Host, p.Status, http.StatusText(p.Status))
		return cli.Hinted(err, login.Get)
	default:
		a.Notice("tried: %s answers %d %s, which says nothing of the credential",
			login.Host, p.Status, http.StatusText(p.Status))
	}
	return nil
}

// tryInside runs this program in a cloister that shows nothing of the project.
func (a *Commands) tryInside(ctx context.Context, login agent.Credential) (p probe.Answer, why string) {
	format := login.Format
	if format == "" {
		format = "{}"
	}
	out, err := a.SelfInside(ctx, nil, mostProbed, append([]string{probe.Name, "https://" + login.Host + login.Check,
		login.Header + ": " + strings.Replace(format, "{}", "{$"+login.Secret+"}", 1)}, login.With...)...)
	if json.Unmarshal(out, &p) == nil {
		return p, ""
	}
	if err == nil {
		err = errors.New("no answer")
	}
	return p, err.Error()
}

// mostProbed bounds the answer of a probe.
const mostProbed = 1 << 20
