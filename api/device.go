package api

import "time"

// PathDevices are the phones that were paired, and how one is.
const PathDevices = "/v1/devices"

// Devices are the paired phones.
type Devices struct {
	URL     string   `json:"url,omitempty"` // of the person's tunnel
	At      string   `json:"at,omitempty"`  // where it leads, HOST:PORT; "" while nothing listens
	Devices []Device `json:"devices"`
}

// Device is one of them.
type Device struct {
	Name  string    `json:"name"`
	Key   string    `json:"key"` // first digits of its key's digest, as the record has them
	Added time.Time `json:"added_at"`
	Used  time.Time `json:"used_at"`
}

// PairRequest asks for a code.
type PairRequest struct {
	Name string `json:"name"`
	URL  string `json:"url,omitempty"`
}

// Pairing is how a pairing stands.
type Pairing struct {
	URL       string    `json:"url,omitempty"` // with the code; in the first answer alone
	At        string    `json:"at,omitempty"`
	State     string    `json:"state"`          // none|device|comparison
	Code      string    `json:"code,omitempty"` // the number that both screens show
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// PairWord ends a pairing: with the number it is agreed to, without it is not.
type PairWord struct {
	Code string `json:"code,omitempty"`
}
