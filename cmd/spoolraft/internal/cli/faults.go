package cli

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
)

func faultsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "faults",
		Short:   "Make calls fail on purpose, to test the retries of a program",
		GroupID: groupServer,
		Long: `Make calls fail on purpose, to test the retries of a program. The server must have
been started with --faults. docs/testing-retries.md shows how to go about it.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		Example: `  spoolraft dev --faults
  spoolraft faults add drop --operation send --probability 0.3
  spoolraft faults list
  spoolraft faults clear`,
	}
	c.AddCommand(faultsAddCommand(), faultsListCommand(), faultsClearCommand())
	return c
}

func faultsAddCommand() *cobra.Command {
	var (
		r     remote
		rule  api.FaultRule
		delay time.Duration
		seed  uint32
	)
	const flagProbability, flagCount, flagSeed, flagDelay = "probability", "count", "seed", "delay"
	c := &cobra.Command{
		Use:   "add FAULT",
		Short: "Add a rule: which calls fail, and how",
		Long: `Add a rule: which calls fail, and how. Rules are tried in their order; a delay goes
on to the next rule, everything else ends the call.

  drop    the call is carried out, then its connection is reset: no answer
  reset   the connection is reset, the call never carried out
  500     "the outcome is unknown", as of a cluster that lost track
  502     as of a proxy that lost the server
  503     "not carried out", as of a cluster without a leader
  504     as of a proxy that lost patience
  delay   the call or its answer takes longer by --delay

--when says whether that is before the call is carried out or after. Without it 503,
reset and delay strike before, the others after. A 503 is never answered after the
call, since it promises that nothing happened.`,
		Example: `  spoolraft faults add drop --operation send --probability 0.3
  spoolraft faults add 503 --operation send --queue orders --count 2
  spoolraft faults add delay --delay 3s --when after --seed 7 --probability 0.1`,
		Args: cobra.ExactArgs(1),
	}
	f := c.Flags()
	f.StringVar(&rule.When, "when", "", "before or after the call is carried out")
	f.StringVar(&rule.Operation, "operation", "", "only this one: send, receive, ack, ack_and_send, ... (default: every one)")
	f.StringVar(&rule.Queue, "queue", "", "only calls that name this queue")
	f.DurationVar(&delay, flagDelay, 0, "how long a delay is, like 250ms or 3s")
	f.Float64Var(&rule.Probability, flagProbability, 1, "for this part of the calls")
	f.Uint64Var(&rule.Count, flagCount, 0, "for so many calls, then never again (default: no limit)")
	f.Uint32Var(&seed, flagSeed, 0, "strike the same calls again as with this seed before (default: random)")
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		switch {
		case !(rule.Probability > 0 && rule.Probability <= 1):
			return usagef("--probability must be above 0 and at most 1")
		case f.Changed(flagCount) && rule.Count == 0:
			return usagef("--count must be at least 1")
		case f.Changed(flagDelay) != (args[0] == "delay"):
			return usagef("a delay, and nothing else, needs --delay")
		case f.Changed(flagDelay) && (delay < time.Millisecond || delay%time.Millisecond != 0):
			return usagef("--delay must be whole milliseconds, like 250ms or 3s")
		}
		rule.Fault, rule.Spool, rule.DelayMs = args[0], r.spool, delay.Milliseconds()
		if f.Changed(flagSeed) {
			rule.Seed = &seed
		}
		raw, err := client.AddFault(c.Context(), rule)
		if err != nil || r.json {
			return r.printRaw(c, raw, explainNoFaults(err))
		}
		added, err := decode[api.FaultRule](raw)
		if err != nil {
			return err
		}
		return printFaults(c, added)
	})
}

func faultsListCommand() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:   "list",
		Short: "List the rules and what each has done",
		Long: `List the rules and what each has done. MATCHED counts the calls that a rule could
have struck, INJECTED those that it struck, and HIDDEN those of them that had
succeeded: a program that repeats one of these without its key stores it twice.`,
		Example: `  spoolraft faults list`,
		Args:    cobra.NoArgs,
	}
	return r.spoolless(c, func(c *cobra.Command, client *api.Client, _ []string) error {
		raw, err := client.Faults(c.Context())
		if err != nil || r.json {
			return r.printRaw(c, raw, explainNoFaults(err))
		}
		page, err := decode[api.Page[api.FaultRule]](raw)
		if err != nil {
			return err
		}
		return printFaults(c, page.Items...)
	})
}

func faultsClearCommand() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:   "clear [ID...]",
		Short: "Remove rules: all of them, or those of these ids",
		Example: `  spoolraft faults clear
  spoolraft faults clear 2`,
		Args: cobra.ArbitraryArgs,
	}
	return r.spoolless(c, func(c *cobra.Command, client *api.Client, ids []string) error {
		if len(ids) == 0 {
			return explainNoFaults(client.ClearFaults(c.Context()))
		}
		for _, id := range ids {
			if err := client.ClearFault(c.Context(), id); err != nil {
				return explainNoFaults(err)
			}
		}
		return nil
	})
}

// explainNoFaults says how a server is started that knows the path.
func explainNoFaults(err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Status != http.StatusNotFound || e.Kind != "" {
		return err
	}
	explained := *e
	explained.Message = "This server takes no fault rules: it was started without --faults."
	return &explained
}

func printFaults(c *cobra.Command, rules ...api.FaultRule) error {
	rows := [][]string{{
		"ID", "FAULT", "WHEN", "OPERATION", "SPOOL", "QUEUE", "PROBABILITY", "LEFT", "SEED", "MATCHED", "INJECTED", "HIDDEN",
	}}
	for _, f := range rules {
		fault, left, seed := f.Fault, "-", "-"
		if f.DelayMs > 0 {
			fault += " " + (time.Duration(f.DelayMs) * time.Millisecond).String()
		}
		if f.Count > 0 {
			left = count(f.Count - min(f.Count, f.Injected))
		}
		if f.Seed != nil {
			seed = count(uint64(*f.Seed))
		}
		rows = append(rows, []string{
			f.ID, fault, f.When, orAny(f.Operation), orAny(f.Spool), orAny(f.Queue),
			strconv.FormatFloat(f.Probability, 'g', -1, 64), left, seed, count(f.Matched), count(f.Injected), count(f.HiddenSuccesses),
		})
	}
	return table(c.OutOrStdout(), rows)
}

func orAny(s string) string {
	if s == "" {
		return "any"
	}
	return s
}
