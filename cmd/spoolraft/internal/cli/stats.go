package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
)

func statsCommand() *cobra.Command {
	var (
		r remote
		l listFlags
	)
	c := &cobra.Command{
		Use:     "stats [QUEUE...]",
		Short:   "Count messages, by queue and over the spool",
		GroupID: groupQueues,
		Example: `  spoolraft stats
  spoolraft stats jobs orders`,
		Args: cobra.ArbitraryArgs,
	}
	l.add(c.Flags(), true)
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		raw, err := client.Stats(c.Context(), args, l.List)
		if err != nil || r.json {
			return r.printRaw(c, raw, err)
		}
		s, err := decode[api.SpoolStats](raw)
		if err != nil {
			return err
		}
		rows := [][]string{{
			"QUEUE", "TOTAL", "VISIBLE", "DELAYED", "PENDING", "FAILED", "BYTES",
			"SENT", "ACKED", "NACKED", "RELEASED", "EXPIRED", "DISCARDED",
		}}
		for _, q := range s.Queues.Items {
			rows = append(rows, statsRow(q.Name, q.Stats))
		}
		rows = append(rows, statsRow(fmt.Sprintf("all (%d)", s.QueueCount), s.Stats))
		more(c.ErrOrStderr(), s.Queues.Next)
		return table(c.OutOrStdout(), rows)
	})
}

func statsRow(name string, s api.Stats) []string {
	row := []string{name}
	for _, n := range []uint64{
		s.Total, s.Visible, s.Delayed, s.Pending, s.Failed, s.DataBytes,
		s.AddedTotal, s.AckedTotal, s.NackedTotal, s.ReleasedTotal, s.ExpiredTotal, s.DiscardedTotal,
	} {
		row = append(row, count(n))
	}
	return row
}
