package client

import "cloister/api"

// Files yields statements about files and programs that are to be in force from now on. Each is
// answered by Applied.
func (l *Link) Files() <-chan api.FileRules { return l.files }

// refile keeps the newest question: no earlier one is waited for any more.
func (l *Link) refile(f *api.FileRules) {
	if f == nil {
		return
	}
	select {
	case <-l.files:
	default:
	}
	l.files <- *f // there is room: this goroutine alone puts something there
}

// Applied says what became of Files.
func (l *Link) Applied(a api.Applied) {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	l.send(conn, api.Frame{Type: api.FrameApplied, Applied: &a}, nil)
}
