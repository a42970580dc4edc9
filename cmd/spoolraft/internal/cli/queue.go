package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
)

func queueCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "queue",
		Short:   "Create, look at, change and delete queues",
		GroupID: groupQueues,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
		Example: `  spoolraft queue create jobs --dedup-window 1h
  spoolraft queue list`,
	}
	c.AddCommand(queueCreateCommand(), queueGetCommand(), queueUpdateCommand(), queueDeleteCommand(), queueListCommand())
	return c
}

func queueCreateCommand() *cobra.Command {
	var (
		r remote
		s settingFlags
	)
	c := &cobra.Command{
		Use:   "create QUEUE",
		Short: "Create a queue",
		Long: `Create a queue. A setting that is not given has its default: leases of 30s,
5 retries, no deduplication, retention of 4d, no limit on deliveries.`,
		Example: `  spoolraft queue create jobs
  spoolraft queue create orders --dedup-window 1h --lease-timeout 2m --max-retries 10`,
		Args: cobra.ExactArgs(1),
	}
	s.add(c.Flags())
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		raw, err := client.CreateQueue(c.Context(), args[0], s.patch(c.Flags()))
		return r.printQueue(c, raw, err)
	})
}

func queueGetCommand() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:     "get QUEUE",
		Short:   "Show a queue and its settings",
		Example: `  spoolraft queue get jobs`,
		Args:    cobra.ExactArgs(1),
	}
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		raw, err := client.Queue(c.Context(), args[0])
		return r.printQueue(c, raw, err)
	})
}

func queueUpdateCommand() *cobra.Command {
	var (
		r remote
		s settingFlags
	)
	c := &cobra.Command{
		Use:   "update QUEUE",
		Short: "Change settings of a queue",
		Long: `Change settings of a queue. What is not given stays as it is. A changed
--dedup-window forgets every key that the queue remembers.`,
		Example: `  spoolraft queue update jobs --max-retries 10
  spoolraft queue update jobs --recv-rate-limit off`,
		Args: cobra.ExactArgs(1),
	}
	s.add(c.Flags())
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		patch := s.patch(c.Flags())
		if patch == (api.Patch{}) {
			return usagef("nothing to change: give at least one setting")
		}
		raw, err := client.UpdateQueue(c.Context(), args[0], patch)
		return r.printQueue(c, raw, err)
	})
}

func queueDeleteCommand() *cobra.Command {
	var (
		r            remote
		force, drain bool
		uid          string
	)
	c := &cobra.Command{
		Use:   "delete QUEUE --force|--drain",
		Short: "Delete a queue",
		Long: `Delete a queue: at once with its messages, or when its last message is gone. A
draining queue takes no sends; receives and settles go on.`,
		Example: `  spoolraft queue delete jobs --drain
  spoolraft queue delete jobs --force --uid "$UID"`,
		Args: cobra.ExactArgs(1),
	}
	c.Flags().BoolVar(&force, "force", false, "at once, with its messages")
	c.Flags().BoolVar(&drain, "drain", false, "when its last message is gone")
	c.Flags().StringVar(&uid, "uid", "", "only the queue with this uid, so that a retry deletes no newer one")
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		if force == drain {
			return usagef("say how: --force drops the messages, --drain waits for the last one")
		}
		mode := "drain"
		if force {
			mode = "force"
		}
		return client.DeleteQueue(c.Context(), args[0], mode, uid)
	})
}

func queueListCommand() *cobra.Command {
	var (
		r remote
		l listFlags
	)
	c := &cobra.Command{
		Use:   "list",
		Short: "List queues by name",
		Example: `  spoolraft queue list
  spoolraft queue list --match '^order-' --limit 1000`,
		Args: cobra.NoArgs,
	}
	l.add(c.Flags(), true)
	return r.command(c, func(c *cobra.Command, client *api.Client, _ []string) error {
		raw, err := client.Queues(c.Context(), l.List)
		if err != nil || r.json {
			return r.printRaw(c, raw, err)
		}
		page, err := decode[api.Page[api.Queue]](raw)
		if err != nil {
			return err
		}
		rows := [][]string{{"NAME", "STATE", "LEASE", "RETRIES", "WINDOW", "RETENTION", "RATE LIMIT", "CREATED"}}
		for _, q := range page.Items {
			rows = append(rows, []string{
				q.Name, q.State, span(q.Settings.LeaseTimeoutSeconds), count(q.Settings.MaxRetries), span(q.Settings.DedupWindowSeconds),
				span(q.Settings.EffectiveRetentionSeconds), rate(q.Settings.RecvRateLimit), q.CreatedAt.Format(time.RFC3339),
			})
		}
		more(c.ErrOrStderr(), page.Next)
		return table(c.OutOrStdout(), rows)
	})
}

func (r *remote) printRaw(c *cobra.Command, raw json.RawMessage, err error) error {
	if err != nil {
		return err
	}
	return printJSON(c.OutOrStdout(), raw)
}

func (r *remote) printQueue(c *cobra.Command, raw json.RawMessage, err error) error {
	if err != nil || r.json {
		return r.printRaw(c, raw, err)
	}
	q, err := decode[api.Queue](raw)
	if err != nil {
		return err
	}
	return table(c.OutOrStdout(), [][]string{
		{"Name", q.Name},
		{"State", q.State},
		{"UID", q.UID},
		{"Created", q.CreatedAt.Format(time.RFC3339)},
		{"Lease timeout", span(q.Settings.LeaseTimeoutSeconds)},
		{"Max retries", count(q.Settings.MaxRetries)},
		{"Dedup window", span(q.Settings.DedupWindowSeconds)},
		{"Retention", span(q.Settings.RetentionSeconds) + effective(q.Settings)},
		{"Recv rate limit", rate(q.Settings.RecvRateLimit)},
	})
}

func effective(s api.Settings) string {
	if s.EffectiveRetentionSeconds == s.RetentionSeconds {
		return ""
	}
	return fmt.Sprintf(" (the spool allows %s)", span(s.EffectiveRetentionSeconds))
}

// settingFlags are the settings of a queue.
type settingFlags struct {
	lease, window, retention seconds
	maxRetries               uint64
	rate                     rateFlag
}

const (
	flagLease     = "lease-timeout"
	flagRetries   = "max-retries"
	flagWindow    = "dedup-window"
	flagRetention = "retention"
	flagRate      = "recv-rate-limit"
)

func (s *settingFlags) add(f *pflag.FlagSet) {
	f.Var(&s.lease, flagLease, "how long a delivery is leased; 0: for ever")
	f.Uint64Var(&s.maxRetries, flagRetries, 0, "retries before a message fails")
	f.Var(&s.window, flagWindow, "how long a dedup key is remembered; 0: keyed sends are refused")
	f.Var(&s.retention, flagRetention, "how long a message is kept")
	f.Var(&s.rate, flagRate, "most deliveries, as MICROSECONDS:BURST, or off")
}

// patch holds the settings that were given.
func (s *settingFlags) patch(f *pflag.FlagSet) api.Patch {
	whole := func(name string, v seconds) *uint64 {
		if !f.Changed(name) {
			return nil
		}
		n := uint64(time.Duration(v) / time.Second)
		return &n
	}
	p := api.Patch{
		LeaseTimeoutSeconds: whole(flagLease, s.lease),
		DedupWindowSeconds:  whole(flagWindow, s.window),
		RetentionSeconds:    whole(flagRetention, s.retention),
	}
	if f.Changed(flagRetries) {
		p.MaxRetries = &s.maxRetries
	}
	if f.Changed(flagRate) {
		limit := api.RateLimit(s.rate)
		p.RecvRateLimit = &limit
	}
	return p
}

// rateFlag is a limit on deliveries.
type rateFlag api.RateLimit

// Set parses the flag.
func (r *rateFlag) Set(text string) error {
	if text == "off" {
		*r = rateFlag{}
		return nil
	}
	every, burst, ok := strings.Cut(text, ":")
	interval, err1 := strconv.ParseUint(every, 10, 64)
	tokens, err2 := strconv.ParseUint(burst, 10, 64)
	if !ok || err1 != nil || err2 != nil || interval == 0 || tokens == 0 {
		return fmt.Errorf("must be MICROSECONDS:BURST, like 1000:50 for a thousand a second, or off")
	}
	*r = rateFlag{IntervalMicros: interval, Burst: tokens}
	return nil
}

// String is the flag's default in a help text.
func (r *rateFlag) String() string { return "" }

// Type is the flag's placeholder in a help text.
func (*rateFlag) Type() string { return "limit" }

// listFlags narrow a listing.
type listFlags struct{ api.List }

func (l *listFlags) add(f *pflag.FlagSet, match bool) {
	if match {
		f.StringVar(&l.Match, "match", "", "only names that this regular expression matches")
	}
	f.IntVar(&l.Limit, "limit", 100, "at most so many, up to 1000")
	f.StringVar(&l.After, "after", "", "go on after this one")
}
