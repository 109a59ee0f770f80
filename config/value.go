package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time, written as 60s, 5m or 1h30m.
type Duration time.Duration

// String writes the duration without zero units at its end: 1m, not 1m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a positive duration with its unit.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 60s, 5m or 1h30m", text)
	}
	if v <= 0 {
		return fmt.Errorf("a duration of %s is not positive", text)
	}
	*d = Duration(v)
	return nil
}

// Size is a number of bytes.
type Size int64

// units are the words after a number. A bare letter counts binary, as docker's
// --memory does; the two-letter words count by thousands, as SI says.
func units() []unit {
	return []unit{
		{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3},
		{"t", 1 << 40}, {"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}, {"b", 1},
	}
}

type unit struct {
	word  string
	bytes float64
}

// String writes the size in the largest binary unit that divides it.
func (s Size) String() string {
	for _, u := range units()[:4] {
		if n := int64(u.bytes); s != 0 && int64(s)%n == 0 {
			return strconv.FormatInt(int64(s)/n, 10) + u.word
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText writes what UnmarshalText reads.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what ParseSize reads.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := ParseSize(string(text))
	*s = v
	return err
}

// ParseSize reads a positive number of bytes: 8GiB, 1.5GiB, 500MB, 512m, 4096.
func ParseSize(text string) (Size, error) {
	number, scale := text, 1.0
	for _, u := range units() {
		if n := len(text) - len(u.word); n > 0 && strings.EqualFold(text[n:], u.word) {
			number, scale = strings.TrimRight(text[:n], " "), u.bytes
			break
		}
	}
	// ParseFloat alone would take 1e9, 0x10p4, Inf, 1_000.
	if strings.Trim(number, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is not a size such as 8GiB, 512MiB or 500MB", text)
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size such as 8GiB, 512MiB or 500MB", text)
	}
	f *= scale
	if f < 1 {
		return 0, errors.New("a size must be at least one byte")
	}
	if f >= 1<<62 {
		return 0, fmt.Errorf("%s is more than any machine has", text)
	}
	return Size(f), nil
}
