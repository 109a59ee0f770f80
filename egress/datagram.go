package egress

import (
	"os"
	"time"

	"cloister/egress/internal/refused"
	"cloister/egress/verdict"
)

// Refusals reads the kernel's log of the datagrams that a gate refused. What is read
// is a descriptor of its own.
func Refusals(f *os.File) (*refused.Socket, error) { return refused.Open(f) }

// noDatagrams is why the gate refused: no rule allows it, as a datagram names neither
// who it is for nor where it ends.
const noDatagrams = "UDP does not leave a cloister: only connections, and questions of DNS, have names that rules " +
	"can judge"

// datagrams records that datagrams to a destination were refused.
func (e *Engine) datagrams(r refused.Report) {
	f := verdict.Flow{Kind: verdict.Connect, Via: verdict.ViaUDP, Start: time.Now(), Reason: noDatagrams,
		Further: r.Further}
	switch target, err := e.session.Target(r.To); {
	case !r.To.IsValid():
		f.Detail = "to destinations that are not told apart"
	case err == nil:
		f.Authority = target
	default:
		f.Detail = r.To.String()
	}
	e.session.Refused(f)
}
