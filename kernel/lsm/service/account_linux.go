package service

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// subIDs is where uids are given to users besides their own (subuid(5)).
const subIDs = "/etc/subuid"

// account is the user that a uid is counted for, as the file of subordinate uids has it now.
func account(uid int) (int, error) {
	f, err := os.Open(subIDs)
	if errors.Is(err, fs.ErrNotExist) {
		return uid, nil
	}
	if err != nil {
		return 0, fmt.Errorf("uid %d: find who has it: %w", uid, err)
	}
	defer f.Close()
	return ownerOf(f, uid, func(name string) (int, bool) {
		u, err := user.Lookup(name)
		if err != nil {
			return 0, false
		}
		n, err := strconv.Atoi(u.Uid)
		return n, err == nil
	})
}

// ownerOf is whose a uid is: that of the user who has it by a line NAME:FIRST:COUNT, or else its own.
// All uids of a line with an unknown user are counted as its first one. A line that says nothing is
// passed over, as newuidmap does.
func ownerOf(text io.Reader, uid int, find func(name string) (int, bool)) (int, error) {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		name, given, _ := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		from, length, _ := strings.Cut(given, ":")
		first, err := strconv.ParseUint(from, 10, 32)
		if err != nil {
			continue
		}
		count, err := strconv.ParseUint(length, 10, 32)
		if err != nil || uint64(uid) < first || uint64(uid)-first >= min(count, math.MaxUint32) {
			continue
		}
		if n, err := strconv.ParseUint(name, 10, 32); err == nil {
			return int(n), nil
		}
		if n, ok := find(name); ok {
			return n, nil
		}
		return int(first), nil
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("uid %d: find who has it: %w", uid, err)
	}
	return uid, nil
}
