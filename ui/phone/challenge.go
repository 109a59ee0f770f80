package phone

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"

	"cloister/internal/random"
)

// challenges are moments, sealed, each of which counts once.
type challenges struct {
	seal []byte
	// clock is the time of day, which a person may set and which goes on while the machine
	// sleeps, and how long the door is there, which does neither.
	clock func() (day time.Time, there time.Duration)

	mu   sync.Mutex
	used map[string]time.Duration // those that were answered, until they would be too old
}

const (
	challengeLife = 30 * time.Second
	maxUsed       = 4096
)

// sealed is what of a challenge the seal is over: 16 bytes of chance, and both clocks.
const sealed = 16 + 8 + 8

func newChallenges() *challenges {
	began := time.Now()
	return &challenges{seal: random.Bytes(32), used: map[string]time.Duration{}, clock: func() (time.Time, time.Duration) {
		now := time.Now()
		return now, now.Sub(began)
	}}
}

func (c *challenges) fresh() string {
	day, there := c.clock()
	b := binary.BigEndian.AppendUint64(random.Bytes(16), uint64(day.UnixMilli()))
	b = binary.BigEndian.AppendUint64(b, uint64(there))
	return base64.RawURLEncoding.EncodeToString(append(b, mac(c.seal, "challenge", b)...))
}

// use reports whether a challenge is ours, young by both clocks, and was not used before.
func (c *challenges) use(text string) bool {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != sealed+sha256.Size || !hmac.Equal(b[sealed:], mac(c.seal, "challenge", b[:sealed])) {
		return false
	}
	day, there := c.clock()
	slept := day.Sub(time.UnixMilli(int64(binary.BigEndian.Uint64(b[16:24]))))
	if max(slept, there-time.Duration(binary.BigEndian.Uint64(b[24:sealed]))) >= challengeLife {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, at := range c.used {
		if there-at >= challengeLife {
			delete(c.used, key)
		}
	}
	key := string(b[:sealed]) // decoded: one challenge has one spelling here
	if _, twice := c.used[key]; twice || len(c.used) >= maxUsed {
		return false
	}
	c.used[key] = there
	return true
}
