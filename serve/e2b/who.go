package e2b

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"cloister/serve"
	"cloister/serve/people"
	"cloister/serve/tenants"
)

// who finds whose request it is: by a tenant's key, or by a person's token. Of each token
// the tenant's record has first that it is used.
func (d *Door) who(r *http.Request) (caller, error) {
	text := keyOf(r)
	if d.People == nil || !people.IsToken(text) {
		t, has, err := d.Tenants.Find(text, time.Now())
		return caller{t, has}, err
	}
	person, fresh, err := d.People.Find(r.Context(), text, time.Now())
	if err != nil {
		return caller{}, tenants.ErrNone
	}
	name, has, err := person.Tenant(r.Header.Get(people.Header))
	if errors.Is(err, people.ErrNone) {
		err = tenants.ErrNone
	}
	if err != nil {
		return caller{}, err
	}
	t, err := d.Tenants.Named(name)
	if errors.Is(err, tenants.ErrMissing) {
		err = tenants.ErrNone
	}
	if err == nil && fresh {
		err = d.Host.Record(context.WithoutCancel(r.Context()), name, serve.Act{
			Kind: serve.ActPerson, Action: "use", Resource: fmt.Sprintf("%s at %s, %s until %s", person.Subject, person.Issuer,
				has,
				person.Until.UTC().Format(time.RFC3339)),
		})
		if err == nil && len(person.Roles) == 1 { // of one who acts for several, each request is recorded
			d.People.Keep(text, person)
		}
	}
	return caller{t, has}, err
}
