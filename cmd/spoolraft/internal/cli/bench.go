package cli

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/bench"
)

// benchFlags are what bench is asked for.
type benchFlags struct {
	config    bench.Config
	timeout   seconds
	fresh     int
	jsonBatch bool
	json      bool
	report    string
}

// defaultWaitRate is how many messages a second come for those who wait.
const defaultWaitRate = 100

func benchCommand() *cobra.Command {
	f := benchFlags{timeout: seconds(10 * time.Second)}
	c := &cobra.Command{
		Use:     "bench send|send-batch|cycle|wait",
		Short:   "Measure a running cluster under load",
		GroupID: groupServer,
		Long: `Measure a running cluster under load.

  send        send a message
  send-batch  send --batch messages in one call
  cycle       send a message, receive one, ack it
  wait        have --clients wait for messages, of which --rate a second are sent

Without --rate, each client calls again as soon as it has its answer (a closed
loop): this shows what the cluster can take. With --rate, so many operations a
second are due, whatever becomes of them (an open loop): this shows what users
wait. A latency then counts from when its operation was due, so that a stall is
charged with everything that it held up.

It makes queues for itself and removes them in the end, unless --queues names
some; in cycle and wait, whatever is received from those is acked.

` + exitCodesHelp,
		Example: `  spoolraft dev --nodes 3 &
  spoolraft bench send --nodes http://127.0.0.1:8080,http://127.0.0.1:8081,http://127.0.0.1:8082
  spoolraft bench cycle --nodes http://127.0.0.1:8080 --clients 16 --rate 500 --report cycle.html`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("give one mode: send, send-batch, cycle or wait")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			f.config.Mode = bench.Mode(args[0])
			return f.run(c)
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.config.Nodes, "nodes", nil, "addresses of APIs, with commas; clients spread over them")
	flags.StringVar(&f.config.Key, "key", "", "key to call them with; the environment hides it better (env SPOOLER_KEY)")
	flags.StringVar(&f.config.Spool, "spool", "default", "spool to work in")
	flags.StringSliceVar(&f.config.Queues, "queues", nil, "queues that exist, instead of new ones, with commas")
	flags.IntVar(&f.fresh, "new-queues", 1, "how many queues to make; clients spread over them")
	flags.IntVar(&f.config.Clients, "clients", 64, "connections that call at once")
	flags.Float64Var(&f.config.RatePerSecond, "rate", 0, "operations a second that are due; 0: a closed loop (in wait, 100)")
	flags.DurationVar(&f.config.Duration, "duration", 10*time.Second, "how long to measure")
	flags.DurationVar(&f.config.Warmup, "warmup", 2*time.Second, "how long to run before that")
	flags.IntVar(&f.config.SizeBytes, "size", 256, "bytes of a payload")
	flags.BoolVar(&f.config.Keyed, "keyed", true, "send each message under a key of its own")
	flags.IntVar(&f.config.Batch, "batch", 100, "messages a send-batch")
	flags.BoolVar(&f.jsonBatch, "json-batch", false, "send batches in JSON instead of the binary form")
	flags.Var(&f.timeout, "timeout", "time for one call, a wait not counted")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.StringVar(&f.report, "report", "", "write a page with plots to this file")
	return c
}

// complete fills in what was left out, and refuses what nothing can be measured with.
func (f *benchFlags) complete(c *cobra.Command) error {
	if len(f.config.Nodes) == 0 {
		return usagef("no nodes to measure: start some with spoolraft dev --nodes 3, then give " +
			"--nodes http://127.0.0.1:8080,http://127.0.0.1:8081,http://127.0.0.1:8082")
	}
	if f.config.Key == "" {
		f.config.Key = os.Getenv("SPOOLER_KEY")
	}
	if f.config.Key == "" {
		return usagef("no key to call the nodes with: set SPOOLER_KEY or --key (spoolraft dev takes any)")
	}
	if f.config.Mode == bench.ModeWait && !c.Flags().Changed("rate") {
		f.config.RatePerSecond = defaultWaitRate
	}
	if len(f.config.Queues) == 0 && (f.fresh < 1 || f.fresh > maxNewQueues) {
		return usagef("--new-queues must be 1 to %d", maxNewQueues)
	}
	if f.jsonBatch && f.config.Mode != bench.ModeSendBatch {
		return usagef("--json-batch is for send-batch")
	}
	f.config.JSON, f.config.Timeout = f.jsonBatch, time.Duration(f.timeout)
	return nil
}

const maxNewQueues = 100

func (f *benchFlags) run(c *cobra.Command) error {
	if err := f.complete(c); err != nil {
		return err
	}
	given := f.config.Queues
	if len(given) == 0 {
		names := newQueueNames(f.fresh)
		f.config.Queues = names
		if err := f.config.Check(); err != nil {
			return usageError{err.Error()}
		}
		remove, err := f.makeQueues(c, names)
		defer remove()
		if err != nil {
			return err
		}
	}
	if isTerminalWriter(c.ErrOrStderr()) {
		f.config.Progress = func(p bench.Progress) { fmt.Fprintf(c.ErrOrStderr(), "\r\x1b[K%s", progressText(p)) }
	}
	result, err := bench.Run(c.Context(), f.config)
	if f.config.Progress != nil {
		fmt.Fprint(c.ErrOrStderr(), "\r\x1b[K")
	}
	if err != nil {
		return usageError{err.Error()}
	}
	return f.print(c, result)
}

func (f *benchFlags) print(c *cobra.Command, result *bench.Result) error {
	if f.report != "" {
		if err := writeFile(f.report, result.WritePage); err != nil {
			return Failure{fmt.Errorf("the report could not be written: %w", err)}
		}
	}
	var err error
	if f.json {
		err = printJSON(c.OutOrStdout(), result)
	} else {
		err = outputError(result.WriteText(c.OutOrStdout()))
	}
	if err == nil && result.Operations == 0 {
		return Failure{fmt.Errorf("not one operation succeeded, so nothing was measured")}
	}
	return err
}

func newQueueNames(n int) (names []string) {
	prefix := "bench-" + strconv.FormatUint(rand.Uint64(), 36)
	for i := range n {
		names = append(names, prefix+"-"+strconv.Itoa(i+1))
	}
	return names
}

// Settings of the queues that bench makes. Should it be killed, what it sent is
// gone within the hour.
var (
	benchWindowSeconds    uint64 = 300
	benchRetentionSeconds uint64 = 3600
)

// makeQueues makes the queues. The function that it returns removes them.
func (f *benchFlags) makeQueues(c *cobra.Command, names []string) (remove func(), err error) {
	client, err := api.New(f.config.Nodes[0], f.config.Key, f.config.Spool, time.Duration(f.timeout))
	if err != nil {
		return func() {}, usageError{err.Error()}
	}
	var made []string
	remove = func() {
		ctx := context.WithoutCancel(c.Context()) // an interrupted run leaves no queue either
		for _, name := range made {
			if err := client.DeleteQueue(ctx, name, "force", ""); err != nil {
				fmt.Fprintf(c.ErrOrStderr(), "spoolraft: the queue %s was not removed: %s\n", name, oneLine(err))
			}
		}
	}
	for _, name := range names {
		patch := api.Patch{DedupWindowSeconds: &benchWindowSeconds, RetentionSeconds: &benchRetentionSeconds}
		if _, err := client.CreateQueue(c.Context(), name, patch); err != nil {
			return remove, err
		}
		made = append(made, name)
	}
	return remove, nil
}

func progressText(p bench.Progress) string {
	at := fmt.Sprintf("%.0f of %.0f s", p.Elapsed.Seconds(), p.Total.Seconds())
	if p.WarmingUp {
		return at + "  warming up"
	}
	return fmt.Sprintf("%s  %.0f messages/s  p50 %.2f ms  p99 %.2f ms  failures %d", at, p.MessagesPerSecond, p.P50Ms, p.P99Ms, p.Failures)
}

func isTerminalWriter(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isTerminal(f)
}

func writeFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
