package audit

import "os"

// BreakFile closes the segment under the log, so that the next write or sync
// fails as on a disk that went away.
func BreakFile(l *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close()
}

// Sync is the group sync, now.
func Sync(l *Log) error { return l.sync() }

// Decode reads one line of the record in dir.
func Decode(dir string, line []byte) (Event, error) {
	keys, err := readKeys(dir)
	if err != nil {
		return Event{}, err
	}
	return keys.decode(line)
}

// Unkeyed makes the next records of l as they were before there were keys.
func Unkeyed(l *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys.list, l.keyAge = nil, 1<<62
	l.sign = l.keys.signer()
	_ = os.RemoveAll(l.keys.dir)
}
