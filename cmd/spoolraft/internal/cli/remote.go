package cli

import (
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
)

// remote is what the commands that speak to a server have in common.
type remote struct {
	api     string
	key     string
	spool   string
	json    bool
	timeout seconds
}

const defaultAPI = "http://127.0.0.1:8080/v1"

// command makes run a command that speaks to a server about a spool.
func (r *remote) command(c *cobra.Command, run func(*cobra.Command, *api.Client, []string) error) *cobra.Command {
	c.Flags().StringVar(&r.spool, "spool", "default", "spool to work in")
	return r.spoolless(c, run)
}

// spoolless makes run a command that speaks to a server. An argument that is
// missing or too many is told with the command's use line.
func (r *remote) spoolless(c *cobra.Command, run func(*cobra.Command, *api.Client, []string) error) *cobra.Command {
	f := c.Flags()
	f.StringVar(&r.api, "api", "", "address of the API (env SPOOLER_API, default "+defaultAPI+")")
	f.StringVar(&r.key, "key", "", "key to call it with; the environment hides it better (env SPOOLER_KEY)")
	f.BoolVar(&r.json, "json", false, "print JSON")
	r.timeout = seconds(30 * time.Second)
	f.Var(&r.timeout, "timeout", "time for one call, a wait not counted")
	args := c.Args
	c.Args = func(c *cobra.Command, given []string) error {
		if err := args(c, given); err != nil {
			return usagef("wrong number of arguments (%d), the use is: %s", len(given), c.UseLine())
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, given []string) error {
		client, err := r.client()
		if err != nil {
			return err
		}
		return run(c, client, given)
	}
	return c
}

func (r *remote) client() (*api.Client, error) {
	base, key := r.api, r.key
	if base == "" {
		base = os.Getenv("SPOOLER_API")
	}
	if base == "" {
		base = defaultAPI
	}
	if key == "" {
		key = os.Getenv("SPOOLER_KEY")
	}
	if key == "" {
		return nil, usagef("no key to call the server with: set SPOOLER_KEY or --key")
	}
	if r.timeout <= 0 {
		return nil, usagef("--timeout must be at least 1s")
	}
	client, err := api.New(base, key, r.spool, time.Duration(r.timeout))
	if err != nil {
		return nil, usageError{err.Error()}
	}
	return client, nil
}

// seconds is a flag of whole seconds: 90, 90s, 15m, 2h, 7d.
type seconds time.Duration

var errSeconds = errors.New("must be whole seconds, like 90, 90s, 15m, 2h or 7d")

// Set parses the flag.
func (s *seconds) Set(text string) error {
	d, err := parseSeconds(text)
	if err != nil || d < 0 || d%time.Second != 0 {
		return errSeconds
	}
	*s = seconds(d)
	return nil
}

func parseSeconds(text string) (time.Duration, error) {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	if days, ok := cutSuffixNumber(text, 'd'); ok {
		return time.Duration(days) * 24 * time.Hour, nil
	}
	return time.ParseDuration(text)
}

func cutSuffixNumber(text string, suffix byte) (uint64, bool) {
	if text == "" || text[len(text)-1] != suffix {
		return 0, false
	}
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 15)
	return n, err == nil
}

// String is the flag's default in a help text.
func (s *seconds) String() string {
	if *s == 0 {
		return "0"
	}
	return time.Duration(*s).String()
}

// Type is the flag's placeholder in a help text.
func (*seconds) Type() string { return "seconds" }
