package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"whole": func(v float64) string { return thousands(int64(v)) },
	"count": thousands,
	"ms":    readable,
	"px":    func(v float64) string { return fmt.Sprintf("%.1f", v) },
}).Parse(pageText))

// WritePage writes a page that needs nothing beside itself.
func (r *Result) WritePage(w io.Writer) error {
	return pageTemplate.Execute(w, struct {
		*Result
		Charts []chart
	}{r, []chart{latencyChart(r.Latencies), rateChart(r.Timeline), timeChart(r.Timeline)}})
}

// WriteText writes what a person wants to know.
func (r *Result) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%s\n\n", r.Subject(), r.HowMeasured())
	fmt.Fprintf(w, "%s messages/s", thousands(int64(r.MessagesPerSecond)))
	if r.Batch > 0 {
		fmt.Fprintf(w, " in %s calls/s", thousands(int64(r.OperationsPerSecond)))
	}
	fmt.Fprintf(w, " (%s in %.1f s)\n\n", thousands(r.Messages), r.Seconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LATENCY, ms\tP50\tP90\tP99\tP99.9\tMAX\tCOUNT")
	for _, l := range r.Latencies {
		fmt.Fprintln(t, strings.Join([]string{
			l.Name, readable(l.P50Ms), readable(l.P90Ms), readable(l.P99Ms), readable(l.P999Ms), readable(l.MaxMs), thousands(l.Count),
		}, "\t"))
	}
	if len(r.Failures) > 0 {
		fmt.Fprintln(t, "\nFAILURES\t")
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Failures)) {
		fmt.Fprintf(t, "%s\t%s\n", kind, thousands(r.Failures[kind]))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if warning := r.Warning(); warning != "" {
		_, err := fmt.Fprintf(w, "\n%s\n", warning)
		return err
	}
	return nil
}

// Subject says what was measured.
func (r *Result) Subject() string {
	keyed := "without keys"
	if r.Keyed {
		keyed = "keyed"
	}
	parts := []string{string(r.Mode)}
	if r.Batch > 0 {
		parts[0] += fmt.Sprintf(" of %d, %s", r.Batch, r.Encoding)
	}
	return strings.Join(append(parts,
		plural(r.Clients, "client"), fmt.Sprintf("%d bytes, %s", r.SizeBytes, keyed), plural(r.Nodes, "node"), plural(r.Queues, "queue")), " · ")
}

// HowMeasured says what the latencies mean.
func (r *Result) HowMeasured() string {
	switch {
	case r.RatePerSecond == 0:
		return "Closed loop: each client waits for its answer before it calls again."
	case r.Mode == ModeWait:
		return fmt.Sprintf("%s messages a second were due; latencies count from when each was due to its receipt.", plain(r.RatePerSecond))
	default:
		return fmt.Sprintf("Open loop: %s operations a second were due; latencies count from when each was due.", plain(r.RatePerSecond))
	}
}

// Warning says what is wrong with the figures, if anything.
func (r *Result) Warning() string {
	switch {
	case r.Operations == 0:
		return "Not one operation succeeded."
	case r.Missed == 0:
		return ""
	case r.Mode == ModeWait:
		return fmt.Sprintf("%s that were sent were not received and acked within %d s of the end.", plural64(r.Missed, "message"), int(grace.Seconds()))
	default:
		return fmt.Sprintf("%s due and never made, as the rate is above what the cluster takes with these clients. The latencies do not hold them.", plural64(r.Missed, "operation"))
	}
}

func plural(n int, what string) string { return plural64(int64(n), what) }

func plural64(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}

// readable writes milliseconds with three digits.
func readable(ms float64) string {
	switch {
	case ms >= 99.95:
		return thousands(int64(ms + 0.5))
	case ms >= 9.995:
		return fmt.Sprintf("%.1f", ms)
	default:
		return fmt.Sprintf("%.2f", ms)
	}
}
