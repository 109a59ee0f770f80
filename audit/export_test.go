package audit

// BreakFile closes the segment under the log, so that the next write or sync
// fails as on a disk that went away.
func BreakFile(l *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close()
}

// Sync is the group sync, now.
func Sync(l *Log) error { return l.sync() }
