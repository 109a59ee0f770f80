//go:build linux

package servertest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/internal/needs"
	"cloister/serve/database"
	"cloister/serve/database/postgres"
	"cloister/serve/tenants"
)

// TestRows has ten servers of 100 tenants enter more and more sandboxes in one PostgreSQL, and prints what each
// question costs.
func TestRows(t *testing.T) {
	if os.Getenv("CLOISTER_LOAD") != "full" {
		t.Skip("CLOISTER_LOAD=full: a minute")
	}
	address := needs.NewPostgres(t).Database("rows")
	tables := connectTables(t, address)
	var list []tenants.Tenant
	for i := range 100 {
		one, _ := addTenant(t, tables, fmt.Sprintf("t%d", i), quiet(1_000_000))
		list = append(list, one)
	}
	var servers []*database.Client
	for i := range 10 {
		db, err := postgres.Open(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		c := database.New(database.Options{
			Dial: dialled(db), Server: fmt.Sprint("s", i), Address: "http://127.0.0.1:1", Lease: time.Hour,
		})
		t.Cleanup(func() { c.Close(); _ = db.Close() }) // nothing is asked any more
		if err := c.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, c)
	}
	id := func(n int) string { return fmt.Sprintf("i%019d", n) }
	fmt.Println("| rows | enter p50 | enter p99 | find p50 | find p99 | list of one tenant p50 |")
	fmt.Println("|---|---|---|---|---|---|")
	had := 0
	for _, n := range []int{100, 1000, 3000, 10_000} {
		entered := each(t, had, n, func(i int) error {
			return servers[i%10].Enter(t.Context(), list[i%100], id(i), map[string]string{"state": "running", "metadata": strings.Repeat("x", 200)})
		})
		had = n
		found := each(t, 0, 500, func(i int) error { _, err := servers[i%10].Find(t.Context(), id(i*7919%n)); return err })
		listed := each(t, 0, 100, func(i int) error { _, err := servers[i%10].List(t.Context(), list[i%100].Name); return err })
		fmt.Printf("| %d | %s | %s | %s | %s | %s |\n", n, at(entered, 0.5), at(entered, 0.99), at(found, 0.5), at(found, 0.99), at(listed, 0.5))
	}
}

// each does something for each number by eight at once, and gives how long each took.
func each(t *testing.T, from, to int, do func(int) error) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := from + w; i < to; i += 8 {
				began := time.Now()
				if err := do(i); err != nil {
					t.Error(err)
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took
}

func at(took []time.Duration, share float64) time.Duration {
	return took[int(share*float64(len(took)-1))].Round(100 * time.Microsecond)
}
