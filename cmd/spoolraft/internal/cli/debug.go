package cli

import (
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cluster"
)

func debugCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "debug",
		Short:   "Look into the data directory of a stopped node",
		GroupID: groupServer,
		Long:    `Look into the data directory of a stopped node. Nothing in it is changed.`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
		Example: `  spoolraft debug log /var/lib/spoolraft`,
	}
	c.AddCommand(debugLogCommand())
	return c
}

// debugLogFlags are those of debug log.
type debugLogFlags struct {
	from, to uint64
	replay   bool
	payloads bool
	json     bool
}

func debugLogCommand() *cobra.Command {
	var f debugLogFlags
	c := &cobra.Command{
		Use:   "log DIR",
		Short: "Print the replicated log in a data directory, command by command",
		Long: `Print the replicated log in a data directory, command by command: what every node of
the cluster was told to do, in this order. The node must be stopped; nothing in the
directory is changed. What is damaged is named, and the rest is printed.

With --replay the log is applied to the newest snapshot before the entries wanted, and
each command is printed with what became of it, each entry with a digest of the state
after it. Two nodes whose digests differ at the same index hold different states. A log
whose beginning is gone has no results before the end of its oldest snapshot.

Of a payload its length is printed and the first 8 bytes of its SHA-256, as hex; itself
only with --payloads. The last entries of a log need not have been committed. With
--json each entry is a line, and the last line sums up.

Exit codes: 0 all of it is whole. 1 something is damaged, or the directory cannot be read.
2 wrong arguments.`,
		Example: `  spoolraft debug log /var/lib/spoolraft
  spoolraft debug log data/1 --replay --from 1200 --to 1210
  spoolraft debug log data/1 --replay --json | jq 'select(.kind == "batch") | .commands[]'`,
		Args: func(c *cobra.Command, given []string) error {
			if len(given) != 1 {
				return usagef("wrong number of arguments (%d), the use is: %s", len(given), c.UseLine())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if f.to > 0 && f.from > f.to {
				return usagef("--from is above --to")
			}
			return f.run(c, args[0])
		},
	}
	flags := c.Flags()
	flags.Uint64Var(&f.from, "from", 0, "index of the first entry (default: the first there is)")
	flags.Uint64Var(&f.to, "to", 0, "index of the last entry (default: the last there is)")
	flags.BoolVar(&f.replay, "replay", false, "print what became of each command")
	flags.BoolVar(&f.payloads, "payloads", false, "print payloads")
	flags.BoolVar(&f.json, "json", false, "print JSON, a line for each entry")
	return c
}

func (f *debugLogFlags) run(c *cobra.Command, dir string) error {
	i, err := cluster.Inspect(dir)
	if err != nil {
		return Failure{err}
	}
	defer i.Close()
	to := f.to
	if to == 0 {
		to = math.MaxUint64
	}
	entries := i.Entries(f.from, to)
	if f.replay {
		entries = i.Replay(f.from, to)
	}
	print := f.printTable
	if f.json {
		print = f.printLines
	}
	if err := print(c, i, entries); err != nil {
		return Failure{fmt.Errorf("the output could not be written: %w", err)}
	}
	damages := i.Damages()
	for _, d := range damages {
		fmt.Fprintf(c.ErrOrStderr(), "damaged: %s\n", d)
	}
	if len(damages) > 0 {
		return Failure{errors.New("the directory is damaged, see above. Nothing was changed")}
	}
	return nil
}

// summary is what there is to say at the end.
type summary struct {
	NodeID     string   `json:"nodeId"`
	InstanceID string   `json:"instanceId"`
	ClusterID  string   `json:"clusterId"`
	First      uint64   `json:"first"` // entry of the log
	Last       uint64   `json:"last"`
	Index      uint64   `json:"index,omitempty"` // of the last entry replayed
	Hash       string   `json:"hash,omitempty"`  // of the state after it
	Damages    []string `json:"damages,omitempty"`
}

func summarize(i *cluster.Inspection, last cluster.LogEntry) summary {
	s := summary{NodeID: i.NodeID, InstanceID: i.InstanceID, ClusterID: i.ClusterID}
	s.First, s.Last = i.Bounds()
	if last.Replayed {
		s.Index, s.Hash = last.Index, hashText(last.Hash)
	}
	for _, d := range i.Damages() {
		s.Damages = append(s.Damages, d.String())
	}
	return s
}

func hashText(hash uint64) string { return fmt.Sprintf("%016x", hash) }

// printLines prints JSON for programs.
func (f *debugLogFlags) printLines(c *cobra.Command, i *cluster.Inspection, entries iter.Seq[cluster.LogEntry]) error {
	return buffered(c.OutOrStdout(), func(out lineWriter) error {
		var last cluster.LogEntry
		for e := range entries {
			if e.Replayed {
				last = e
			}
			if err := out.json(describeEntry(e, f.payloads)); err != nil {
				return err
			}
		}
		return out.json(struct {
			Summary summary `json:"summary"`
		}{summarize(i, last)})
	})
}
