package phone

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/internal/random"
)

// codeLife is how long a code waits for a device, and then a device for the person.
const codeLife = 2 * time.Minute

// What a pairing waits for.
const (
	Nothing    = "none"       // there is none, or it is over
	ForDevice  = "device"     // for the code to be scanned
	ForCompare = "comparison" // for the person to compare the number
)

// pairing is a code that was made, and the device that came with it.
type pairing struct {
	name   string
	secret []byte
	ends   time.Time
	public []byte // of the device that proved the code
}

// nameForm is what a device may be called.
var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`) })

// Offer is a code that one device may use, with the state of its pairing.
type Offer struct {
	URL   string // with the code behind the #, which no browser sends
	At    string // where the tunnel has to lead, HOST:PORT
	State string
	Code  string // to compare, where a device came
	Ends  time.Time
}

// address checks what the person's tunnel is called: https, or plain http for this
// machine's own names, which browsers trust with keys too.
func address(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
		u.Fragment != "":
		return nil, fmt.Errorf("%q is not the address of a tunnel, such as https://my-tunnel.example", text)
	case u.Scheme == "http" && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1"):
	case u.Scheme != "https":
		return nil, fmt.Errorf("%q: a browser keeps keys only for https, or http to localhost", text)
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); port == map[string]string{"https": "443", "http": "80"}[u.Scheme] {
		host = strings.TrimSuffix(host, ":"+port) // browsers leave it out
	}
	return &url.URL{Scheme: u.Scheme, Host: host}, nil
}

// Pair makes a code for one device. The URL may be left out where a device has one
// already; another one needs all devices to be unpaired.
func (d *Door) Pair(ctx context.Context, name, at string) (Offer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !nameForm().MatchString(name) {
		return Offer{}, fmt.Errorf("%q is no name for a device: letters, digits, dots and dashes", name)
	}
	if slices.ContainsFunc(d.kept.Devices, func(x *Device) bool { return x.Name == name }) {
		return Offer{}, fmt.Errorf("a device %q is paired already", name)
	}
	if len(d.kept.Devices) >= maxDevices {
		return Offer{}, fmt.Errorf("%d devices are paired already", maxDevices)
	}
	switch u, err := address(cmp.Or(at, d.kept.URL)); {
	case at == "" && d.kept.URL == "":
		return Offer{}, errors.New("the address of your tunnel is missing")
	case err != nil:
		return Offer{}, err
	case len(d.kept.Devices) > 0 && u.String() != d.kept.URL:
		return Offer{}, fmt.Errorf("devices are paired for %s, and keep their keys for it: unpair them first", d.kept.URL)
	default:
		d.kept.URL = u.String()
	}
	if err := d.listen(ctx); err != nil {
		return Offer{}, err
	}
	d.pairing = &pairing{name: name, secret: random.Bytes(16), ends: d.now().Add(codeLife)}
	d.alarm()
	o := d.offer()
	o.URL = d.kept.URL + "/#" + base64.RawURLEncoding.EncodeToString(d.pairing.secret)
	return o, nil
}

// alarm has the door shut when the pairing is over and no device is left.
func (d *Door) alarm() {
	if d.timer != nil {
		d.timer.Stop()
	}
	d.timer = time.AfterFunc(d.pairing.ends.Sub(d.now())+time.Second, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.waiting()
		d.rest()
	})
}

// waiting is the pairing that is under way; nil for none.
func (d *Door) waiting() *pairing {
	if d.pairing != nil && !d.now().Before(d.pairing.ends) {
		d.pairing = nil
	}
	return d.pairing
}

func (d *Door) offer() Offer {
	o := Offer{State: Nothing, At: d.at()}
	if p := d.waiting(); p != nil {
		o.State, o.Ends = ForDevice, p.ends
		if p.public != nil {
			o.State, o.Code = ForCompare, number(p.secret, p.public)
		}
	}
	return o
}

// Pairing is how the pairing stands.
func (d *Door) Pairing() Offer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.offer()
}

// Proof is what shows that a key is of whoever has the code: the tunnel, which never sees
// the code, can put no other key in its place.
func Proof(secret, public []byte) []byte { return mac(secret, "cloister pair", public) }

// number is what both screens show. It depends on the key and the code.
func number(secret, public []byte) string {
	n := binary.BigEndian.Uint32(mac(secret, "cloister code", public)) % 1_000_000
	return fmt.Sprintf("%03d %03d", n/1000, n%1000)
}

func mac(secret []byte, what string, public []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(what + "\n"))
	h.Write(public)
	return h.Sum(nil)
}

// offered takes a device that proves the code. A second device with the same code ends the
// pairing: another person has seen it.
func (d *Door) offered(public, proof []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.waiting()
	if p == nil {
		return refuse(unknown, "no code waits: it was used, or is older than two minutes")
	}
	if _, err := keyOf(public); err != nil {
		return refuse(bad, err.Error())
	}
	if !hmac.Equal(proof, Proof(p.secret, public)) {
		return refuse(unknown, "that is not the code which waits")
	}
	switch {
	case p.public == nil:
		p.public, p.ends = slices.Clone(public), d.now().Add(codeLife)
		d.alarm()
	case !slices.Equal(p.public, public):
		d.pairing = nil
		return refuse(unknown, "the code was used by another device: pair once more")
	}
	return nil
}

// Confirm ends the pairing with the person's word: with the number that both screens
// show, the device is paired; with "" it is not.
func (d *Door) Confirm(code string, record func(Device) error) (Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.waiting()
	d.pairing = nil
	defer d.rest()
	switch {
	case p == nil || p.public == nil:
		return Device{}, errors.New("no device waits")
	case code == "":
		return Device{}, errors.New("not paired")
	case code != number(p.secret, p.public):
		return Device{}, errors.New("another device waits than the one that was confirmed")
	}
	x := &Device{Name: p.name, Public: p.public, Added: d.now(), Used: d.now()}
	if slices.ContainsFunc(d.kept.Devices, func(y *Device) bool { return y.ID() == x.ID() || y.Name == x.Name }) {
		return Device{}, errors.New("this device is paired already")
	}
	if err := record(*x); err != nil {
		return Device{}, err
	}
	d.kept.Devices = append(d.kept.Devices, x)
	if err := d.kept.write(d.path); err != nil {
		d.kept.Devices = d.kept.Devices[:len(d.kept.Devices)-1]
		return Device{}, err
	}
	return *x, nil
}

// Cancel takes a code back.
func (d *Door) Cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pairing = nil
	d.rest()
}

// Unpair forgets a device: when it returns, none of its answers is on its way, and each is
// refused. One that the disk would not forget is refused too, and stays in the list until
// it is unpaired once more.
func (d *Door) Unpair(name string, record func(Device) error) (Device, error) {
	d.calling.Lock()
	defer d.calling.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.kept.Devices, func(x *Device) bool { return x.Name == name })
	if i < 0 {
		return Device{}, ErrNoDevice
	}
	if err := record(*d.kept.Devices[i]); err != nil {
		return Device{}, err
	}
	d.kept.Devices[i].gone = true
	gone := *d.kept.Devices[i]
	if err := d.kept.write(d.path); err != nil {
		return Device{}, fmt.Errorf("its answers are refused, but the file still has it: unpair it once more: %w", err)
	}
	d.kept.Devices = slices.Delete(d.kept.Devices, i, i+1)
	d.rest()
	return gone, nil
}

// ErrNoDevice says that no device has that name.
var ErrNoDevice = errors.New("no device has that name")
