package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cluster"
	"github.com/spoolraft/spoolraft/fsm"
)

// lineWriter writes one thing a line.
type lineWriter struct{ *bufio.Writer }

func buffered(to io.Writer, write func(lineWriter) error) error {
	out := lineWriter{bufio.NewWriterSize(to, 64<<10)}
	if err := write(out); err != nil {
		return err
	}
	return out.Flush()
}

func (w lineWriter) json(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", line)
	}
	return err
}

// rowsAligned is how many rows of a long table share their columns, so that it
// need not be held as a whole.
const rowsAligned = 500

// printTable prints a row for each command.
func (f *debugLogFlags) printTable(c *cobra.Command, i *cluster.Inspection, entries iter.Seq[cluster.LogEntry]) error {
	return buffered(c.OutOrStdout(), func(out lineWriter) error {
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, strings.Join(f.columns(), "\t"))
		var last cluster.LogEntry
		rows := 0
		for e := range entries {
			if e.Replayed {
				last = e
			}
			for _, row := range f.rows(describeEntry(e, f.payloads)) {
				fmt.Fprintln(t, strings.Join(row, "\t"))
				if rows++; rows%rowsAligned == 0 {
					if err := t.Flush(); err != nil {
						return err
					}
				}
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
		return writeSummary(out, summarize(i, last))
	})
}

func writeSummary(out io.Writer, s summary) error {
	text := fmt.Sprintf("node %s, cluster %s: entries %d to %d", orDash(s.NodeID), orDash(s.ClusterID), s.First, s.Last)
	if s.Hash != "" {
		text += fmt.Sprintf("; the state after entry %d has the digest %s", s.Index, s.Hash)
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

func (f *debugLogFlags) columns() []string {
	columns := []string{"INDEX", "TERM", "TIME", "COMMAND", "QUEUE", "KEY", "BYTES", "DIGEST", "DETAIL"}
	if f.replay {
		columns = append(columns, "RESULT")
	}
	return columns
}

// rows are those of one entry: one for each command.
func (f *debugLogFlags) rows(l logLine) (rows [][]string) {
	at := l.AppendedAt
	if l.LogTime != nil {
		at = l.LogTime
	}
	add := func(cells ...string) {
		row := append([]string{count(l.Index), count(l.Term), momentText(at)}, cells...)
		for len(row) < len(f.columns()) {
			row = append(row, "-")
		}
		rows = append(rows, row)
	}
	switch {
	case l.Kind == cluster.EntryDamaged:
		add("DAMAGED", "-", "-", "-", "-", l.Damage)
	case l.Kind == cluster.EntryBatch && len(l.Commands) == 0:
		add("time")
	case l.Kind != cluster.EntryBatch:
		add(l.Kind, "-", "-", "-", "-", orDash(strings.Join(l.Members, ", ")))
	}
	for _, c := range l.Commands {
		size := "-"
		if c.PayloadBytes != nil {
			size = fmt.Sprint(*c.PayloadBytes)
		}
		cells := []string{c.Op, queueText(c), orDash(c.Fingerprint), size, orDash(c.PayloadDigest), orDash(strings.Join(details(c), " "))}
		if f.replay {
			cells = append(cells, resultText(c.Result))
		}
		add(cells...)
	}
	return rows
}

func momentText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format("2006-01-02T15:04:05.000Z07:00")
}

// queueText names the spool where it is not the default one.
func queueText(c commandLine) string {
	if c.Spool != "" && c.Spool != fsm.DefaultSpool {
		return c.Spool + "/" + orDash(c.Queue)
	}
	return orDash(c.Queue)
}

// details are what only some commands have.
func details(c commandLine) (d []string) {
	if t := c.Token; t != nil {
		d = append(d, fmt.Sprintf("%s %s.%d", t.Sort, t.ID, t.Moves))
	}
	if c.DelaySeconds > 0 {
		d = append(d, "delay "+span(uint64(c.DelaySeconds)))
	}
	if c.Max > 0 {
		d = append(d, fmt.Sprintf("up to %d", c.Max))
	}
	for _, s := range []string{c.Mode, c.UID, c.ClusterID} {
		if s != "" {
			d = append(d, s)
		}
	}
	for _, v := range []map[string]any{c.Settings, c.Caps} {
		if text, err := json.Marshal(v); err == nil && v != nil {
			d = append(d, string(text))
		}
	}
	if c.Payload != nil {
		d = append(d, fmt.Sprintf("%q", c.Payload))
	}
	return d
}

func resultText(r *resultLine) string {
	if r == nil {
		return "-"
	}
	text := r.Outcome
	for _, s := range []string{r.Kind, r.ID, strings.Join(r.IDs, ", ")} {
		if s != "" {
			text += " " + s
		}
	}
	if r.Retries != nil && *r.Retries > 0 {
		text += fmt.Sprintf(", retries %d", *r.Retries)
	}
	return text
}
