package localuser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cloister/internal/durable"
	"cloister/sandbox"
)

// What setup makes.
const (
	// Account is a system account that nothing runs as: its entries in /etc/subuid and
	// /etc/subgid keep the payloads' ids from being given to others.
	Account = "cloister-local"
	Program = "/usr/local/libexec/cloister-local"
	Unit    = "/etc/systemd/system/cloister-local.service"
	firstID = 1_894_000_000
	idCount = 65_536
)

// Setup is root's word about this level: made once, and removed whole.
type Setup struct {
	// Self is this program, of which root keeps a copy.
	Self string
	// Run runs a program of the host.
	Run func(ctx context.Context, name string, args ...string) error
	// Say tells a person what was done.
	Say func(format string, args ...any)
}

// Install makes the account, the program and its service, for the named accounts and those
// that were named before. What is there already stays.
func (s Setup) Install(ctx context.Context, names []string) error {
	allowed, err := uids(names)
	if err != nil {
		return err
	}
	before, err := os.ReadFile(Unit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, uid := range allowedBy(before) {
		if !slices.Contains(allowed, uid) {
			allowed = append(allowed, uid)
		}
	}
	if len(allowed) == 0 {
		return &sandbox.Unsupported{Guarantee: "setup local-user", Reason: "no account is named that may use it",
			Fix: "cloister setup local-user NAME"}
	}
	slices.Sort(allowed)
	if err := s.account(ctx); err != nil {
		return err
	}
	renewed, err := s.program()
	if err != nil {
		return err
	}
	text := unit(allowed)
	changed := renewed || !bytes.Equal(before, text)
	if changed {
		if err := os.MkdirAll(filepath.Dir(Unit), 0o755); err != nil {
			return err
		}
		if err := durable.WriteFile(Unit, text, 0o644); err != nil {
			return err
		}
		s.Say("made    %s, for %s", Unit, words(allowed))
	}
	if err := s.begin(ctx, allowed, changed); err != nil {
		return err
	}
	s.Say("ready   cloister run --isolation %s, as uid %s", Name, words(allowed))
	return nil
}

// begin has the service run, now and at every boot.
func (s Setup) begin(ctx context.Context, allowed []int, changed bool) error {
	if !systemd() {
		s.Say("hint: this host has no systemd: have root run this at every boot:")
		s.Say("hint: %s", command(allowed))
		return nil
	}
	err := s.Run(ctx, "systemctl", "daemon-reload")
	if err == nil {
		err = s.Run(ctx, "systemctl", "enable", "--now", "cloister-local.service")
	}
	if err == nil && changed {
		err = s.Run(ctx, "systemctl", "restart", "cloister-local.service")
	}
	return err
}

// Undo removes all that Install made. Boxes that stand go on to their end.
func (s Setup) Undo(ctx context.Context) error {
	var errs []error
	if _, err := os.Lstat(Unit); err == nil {
		if systemd() {
			errs = append(errs, s.Run(ctx, "systemctl", "disable", "--now", "cloister-local.service"))
		}
		errs = append(errs, os.Remove(Unit))
		if systemd() {
			errs = append(errs, s.Run(ctx, "systemctl", "daemon-reload"))
		}
		s.Say("removed %s", Unit)
	}
	if _, err := os.Lstat(Program); err == nil {
		errs = append(errs, os.Remove(Program))
		s.Say("removed %s", Program)
	}
	if _, err := user.Lookup(Account); err == nil {
		errs = append(errs, s.Run(ctx, "userdel", Account))
		s.Say("removed account %s", Account)
	}
	if dir := filepath.Dir(Socket); errors.Join(errs...) == nil {
		if _, err := os.Lstat(dir); err == nil {
			errs = append(errs, os.RemoveAll(dir))
			s.Say("removed %s", dir)
		}
	}
	return errors.Join(errs...)
}

// account makes the account, and keeps ids for payloads.
func (s Setup) account(ctx context.Context) error {
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		f, err := os.OpenFile(file, os.O_RDONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if err := free(file, string(text)); err != nil {
			return err
		}
	}
	if _, err := user.Lookup(Account); err == nil {
		return nil
	}
	if err := s.Run(ctx, "useradd", "--system", "--no-log-init", "--no-create-home",
		"--home-dir", "/nonexistent", "--shell",
		"/usr/sbin/nologin", Account); err != nil {
		return err
	}
	last := strconv.Itoa(firstID + idCount - 1)
	if err := s.Run(ctx, "usermod", "--add-subuids", strconv.Itoa(firstID)+"-"+last, "--add-subgids",
		strconv.Itoa(firstID)+"-"+last, Account); err != nil {
		return errors.Join(err, s.Run(ctx, "userdel", Account))
	}
	s.Say("made    account %s, with ids %d to %s for payloads", Account, firstID, last)
	return nil
}

// free refuses ids that another account was given.
func free(file, text string) error {
	for line := range strings.Lines(text) {
		part := strings.Split(strings.TrimSpace(line), ":")
		if len(part) != 3 || part[0] == Account {
			continue
		}
		first, err := strconv.Atoi(part[1])
		count, err2 := strconv.Atoi(part[2])
		if err == nil && err2 == nil && first < firstID+idCount && firstID < first+count {
			return fmt.Errorf("setup local-user: %s gives %s ids that payloads have: %s", file, part[0], strings.TrimSpace(line))
		}
	}
	return nil
}

// program keeps a copy of this program that root alone can change.
func (s Setup) program() (renewed bool, err error) {
	text, err := os.ReadFile(s.Self)
	if err != nil {
		return false, err
	}
	if there, err := os.ReadFile(Program); err == nil && bytes.Equal(there, text) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(Program), 0o755); err != nil {
		return false, err
	}
	if err := durable.WriteFile(Program, text, 0o755); err != nil {
		return false, err
	}
	s.Say("made    %s", Program)
	return true, nil
}

// command is how the helper is started.
func command(allowed []int) string {
	return fmt.Sprintf("%s %s %s %d %d %s", Program, HelperName, words(allowed), firstID, idCount, Socket)
}

// unit is the service. It has no mount namespace of its own, in which it would not see its
// callers' folders, and no more of root's power than it uses.
func unit(allowed []int) []byte {
	return []byte(`# Made by: cloister setup local-user. It removes it, too: cloister setup local-user --undo
[Unit]
Description=Cloister's namespaces for accounts that get no user namespace

[Service]
ExecStart=` + command(allowed) + `
KillMode=process
Restart=on-failure
NoNewPrivileges=yes
CapabilityBoundingSet=` + Capabilities + `

[Install]
WantedBy=multi-user.target
`)
}

// Capabilities are what the helper has of root's power, each for one thing: namespaces and
// mounts; the gate; its port for questions; giving all up; the payload's user and group, and
// their map; entering a box and looking at its caller; ending a box; its caller's control
// groups and a mapped overlay; opening a caller's pipe to the payload.
const Capabilities = "CAP_SYS_ADMIN CAP_NET_ADMIN CAP_NET_BIND_SERVICE CAP_SETPCAP CAP_SETUID CAP_SETGID " +
	"CAP_SYS_CHROOT CAP_SYS_PTRACE CAP_KILL CAP_DAC_OVERRIDE CAP_FOWNER"

// allowedBy are the uids that a unit lets in.
func allowedBy(unit []byte) []int {
	var out []int
	for line := range strings.Lines(string(unit)) {
		rest, ok := strings.CutPrefix(line, "ExecStart="+Program+" "+HelperName+" ")
		if !ok {
			continue
		}
		list, _, _ := strings.Cut(rest, " ")
		for text := range strings.SplitSeq(list, ",") {
			if uid, err := strconv.Atoi(text); err == nil {
				out = append(out, uid)
			}
		}
	}
	return out
}

// uids are those of accounts by name or number. Root needs none.
func uids(names []string) ([]int, error) {
	var out []int
	for _, name := range names {
		uid, err := strconv.Atoi(name)
		if err != nil {
			who, err := user.Lookup(name)
			if err != nil {
				return nil, fmt.Errorf("setup local-user: %w", err)
			}
			if uid, err = strconv.Atoi(who.Uid); err != nil {
				return nil, fmt.Errorf("setup local-user: %s has no uid: %w", name, err)
			}
		}
		if uid <= 0 {
			return nil, fmt.Errorf("setup local-user: %s is root, or no account", name)
		}
		if !slices.Contains(out, uid) {
			out = append(out, uid)
		}
	}
	return out, nil
}

func words(uids []int) string {
	text := make([]string, len(uids))
	for i, uid := range uids {
		text[i] = strconv.Itoa(uid)
	}
	return strings.Join(text, ",")
}

// systemd reports whether it runs this host (sd_booted(3)).
func systemd() bool {
	fi, err := os.Lstat("/run/systemd/system")
	return err == nil && fi.IsDir()
}
