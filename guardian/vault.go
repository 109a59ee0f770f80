package guardian

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"cloister/api"
	"cloister/audit"
	"cloister/guardian/folders"
	"cloister/guardian/placeholders"
	"cloister/host/resolve"
	"cloister/internal/xdg"
	"cloister/secret"
	"cloister/secret/vault"
)

// A vaultDoor opens the vault when it is first needed: a person that binds no secret never
// pays for one, and a vault that cannot be read stops nothing else. One that could
// not be read is looked at again the next time.
type vaultDoor struct {
	mu     sync.Mutex
	open   *vault.Vault
	ledger *placeholders.Ledger
}

// issued is the ledger of placeholders, which lies beside the vault.
func (d *vaultDoor) issued(o Options) (*placeholders.Ledger, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ledger != nil {
		return d.ledger, nil
	}
	if err := xdg.Private(folders.Vault(o.Dirs), os.Getuid()); err != nil {
		return nil, fmt.Errorf("keep placeholders: %w", err)
	}
	l, err := placeholders.OpenLedger(folders.Vault(o.Dirs))
	if err == nil {
		d.ledger = l
	}
	return l, err
}

func (d *vaultDoor) get(o Options, renew vault.Renewer) (*vault.Vault, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open != nil {
		return d.open, nil
	}
	v, err := vault.Open(folders.Vault(o.Dirs), o.Keyring, vault.Command(o.SecretEnv, o.resolver()), renew)
	if err != nil {
		return nil, err
	}
	d.open = v
	return v, nil
}

// openVault is the vault as it is on the disk, or why it cannot be read.
func (g *guardian) openVault() (*vault.Vault, error) {
	v, err := g.vault.get(g.o, g.renew)
	if err == nil {
		err = v.Reread()
	}
	return v, err
}

// knownSecrets are the values that no output of a host command brings inside: all of
// the vault's, whichever session has a placeholder for one.
func (g *guardian) knownSecrets() ([]secret.Scrubbed, error) {
	v, err := g.openVault()
	if err != nil {
		return nil, err
	}
	return v.Known(), nil
}

func (g *guardian) getSecrets(http.ResponseWriter, *http.Request) (any, error) {
	v, err := g.openVault()
	if err != nil {
		return nil, err
	}
	return api.Secrets{Protection: v.Protection(), Secrets: g.shown().All(v)}, nil
}

// postSecret sets a secret. The record comes first, without the value.
func (g *guardian) postSecret(_ http.ResponseWriter, r *http.Request) (any, error) {
	name := r.PathValue("name")
	req, err := read[api.SecretSet](r)
	if err != nil {
		return nil, api.BadRequest("set secret %q: the request is not JSON of the right form", name)
	}
	if err := vault.CheckName(name); err != nil {
		return nil, api.BadRequest("set secret: %v", err)
	}
	if (req.Value != "") == (len(req.Command) > 0) {
		return nil, api.BadRequest("set secret %q: either a value or a command", name)
	}
	v, err := g.openVault()
	if err != nil {
		return nil, err
	}
	if len(req.Command) > 0 {
		if err := g.recordVault(r, "set", name, "by a command of the host"); err != nil {
			return nil, err
		}
		err = v.SetCommand(r.Context(), name, secret.Kind(req.Kind), req.Command,
			time.Duration(req.RefreshMS)*time.Millisecond, time.Now())
	} else {
		var value secret.Value
		if value, err = vault.Read(secret.Kind(req.Kind), req.Value); err != nil {
			return nil, api.BadRequest("set secret %q: %v", name, err)
		}
		if err := g.recordVault(r, "set", name, "a value that is stored"); err != nil {
			return nil, err
		}
		err = v.Set(name, secret.Kind(req.Kind), value, time.Now())
		g.learn(name, value)
	}
	if err != nil {
		return nil, err
	}
	item, err := v.Find(name)
	return g.shown().One(item), err
}

func (g *guardian) postSecretRemove(_ http.ResponseWriter, r *http.Request) (any, error) {
	name := r.PathValue("name")
	v, err := g.openVault()
	if err != nil {
		return nil, err
	}
	if _, err := v.Find(name); err != nil {
		return nil, err
	}
	if err := g.recordVault(r, "remove", name, ""); err != nil {
		return nil, err
	}
	return struct{}{}, v.Remove(name)
}

// recordVault records what a person does with the vault.
func (g *guardian) recordVault(r *http.Request, action, name, reason string) error {
	err := g.records.Append(r.Context(), audit.Event{
		Kind: audit.SecretUse, Action: action, Resource: name, Verdict: "allow", Reason: reason,
		Policy: g.policies.Current().Snapshot().Digest(),
	})
	if err != nil {
		return api.Unrecorded("secret "+name, err)
	}
	return nil
}

// resolver finds programs of the host where no payload could put one.
func (o Options) resolver() resolve.Now { return resolve.In(o.Dirs.State, os.Getuid()) }
