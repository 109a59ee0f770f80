package machinetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// clientName is the program that an image's containers have besides the database: this test's own, as it
// links nothing. Debian's static busybox ended with a fault where it had to look up a name.
const clientName = "client"

// client is that program: "get URL" prints an answer, "serve ADDRESS" counts visits in a database.
func client(words []string) int {
	if len(words) != 2 {
		return 2
	}
	var err error
	switch words[0] {
	case "get":
		err = get(words[1])
	case "serve":
		err = count(words[1])
	default:
		return 2
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func get(url string) error {
	c := http.Client{Timeout: 20 * time.Second}
	r, err := c.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if _, err := io.Copy(os.Stdout, r.Body); err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, r.Status)
	}
	return nil
}

// count serves the number of visits, which the database keeps.
func count(at string) error {
	return http.ListenAndServe(at, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		n, err := increment()
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = fmt.Fprintf(rw, "visits %s\n", n)
	}))
}

// increment asks the database, by the name that its network gives it (RESP: https://redis.io/docs/latest/develop/reference/protocol-spec).
func increment() (string, error) {
	c, err := net.DialTimeout("tcp", "db:6379", 30*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "INCR visits\r\n"); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return "", err
	}
	n, ok := strings.CutPrefix(strings.TrimSpace(line), ":")
	if !ok {
		return "", fmt.Errorf("the database answered %q", line)
	}
	return n, nil
}
