package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
)

// table prints rows in columns, the first row as their head.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return outputError(t.Flush())
}

// printJSON prints v on one line.
func printJSON(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return Failure{err}
	}
	_, err = fmt.Fprintf(w, "%s\n", line)
	return outputError(err)
}

func outputError(err error) error {
	if err != nil {
		return outputFailure{err}
	}
	return nil
}

// outputFailure leaves the reader in the dark about what was done.
type outputFailure struct{ err error }

func (f outputFailure) Error() string { return "the output could not be written: " + f.err.Error() }

// ExitCode is that of an unknown outcome.
func (outputFailure) ExitCode() int { return ExitUnknown }

// decode reads an answer for a table.
func decode[T any](raw json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, Failure{fmt.Errorf("the answer is none that this version understands: %w", err)}
	}
	return v, nil
}

// span writes seconds for people.
func span(n uint64) string {
	d := time.Duration(n) * time.Second
	switch {
	case n == 0:
		return "0"
	case d%(24*time.Hour) == 0:
		return strconv.FormatUint(n/86_400, 10) + "d"
	case d%time.Hour == 0:
		return strconv.FormatUint(n/3_600, 10) + "h"
	case d%time.Minute == 0:
		return strconv.FormatUint(n/60, 10) + "m"
	default:
		return strconv.FormatUint(n, 10) + "s"
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

func rate(r *api.RateLimit) string {
	if r == nil {
		return "off"
	}
	return fmt.Sprintf("every %dus, burst %d", r.IntervalMicros, r.Burst)
}

// more tells a person how to see the rest of a listing.
func more(w io.Writer, next string) {
	if next != "" {
		fmt.Fprintf(w, "There is more: --after %s\n", next)
	}
}
