package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
)

// The exit codes of every command.
const (
	ExitDone    = 0 // it happened
	ExitFailed  = 1 // it could not be tried, or was only a read: nothing changed
	ExitUsage   = 2 // wrong arguments or configuration: nothing was tried
	ExitNothing = 3 // nothing received
	ExitRefused = 4 // the server said no: it did not happen and never will
	ExitUnknown = 5 // it may have happened
	ExitRemoved = 6 // of serve alone: the node was removed from its cluster
)

const exitCodesHelp = `Exit codes:
  0  done
  1  could not be tried (no server, unreadable file), or only a read: nothing changed
  2  wrong arguments or configuration: nothing was tried
  3  nothing received
  4  refused by the server: it did not happen and never will
  5  unknown outcome: it may have happened
  6  serve: the node was removed from its cluster`

// usageError is a command line that cannot be carried out.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return usageError{fmt.Sprintf(format, args...)}
}

// errNothing ends a receive that received nothing.
var errNothing = errors.New("nothing received")

// Run carries out one command line, without the program's name, and returns
// its exit code. The further commands run servers.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, further ...*cobra.Command) int {
	root := newRoot()
	for _, c := range further {
		c.GroupID = groupServer
		root.AddCommand(c)
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ran, err := root.ExecuteContextC(ctx)
	code := exitCode(err)
	switch {
	case err == nil, errors.Is(err, errNothing):
	case code == ExitUsage:
		fmt.Fprintf(stderr, "spoolraft: %s. See: %s --help\n", oneLine(err), ran.CommandPath())
	default:
		fmt.Fprintf(stderr, "spoolraft: %s\n", oneLine(err))
	}
	return code
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "spoolraft",
		Short: "A replicated message queue that remembers what it has been sent",
		Long: `spoolraft is a replicated message queue that remembers what it has been sent: a
send that is repeated with its key, at any node, is stored once.

` + exitCodesHelp,
		Example: `  spoolraft dev
  spoolraft queue create jobs --dedup-window 1h
  spoolraft send jobs 'hello' --dedup-key order-1
  spoolraft recv jobs --ack`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              cobra.NoArgs,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddGroup(
		&cobra.Group{ID: groupServer, Title: "Run a server:"},
		&cobra.Group{ID: groupQueues, Title: "Queues:"},
		&cobra.Group{ID: groupMessages, Title: "Messages:"},
	)
	root.AddCommand(clusterCommand(), faultsCommand(), debugCommand(), benchCommand(), queueCommand(), statsCommand(), sendCommand(), recvCommand())
	root.AddCommand(settleCommands()...)
	root.AddCommand(inspectCommand(), recoverCommand(), messagesCommand(), versionCommand())
	return root
}

const (
	groupServer   = "server"
	groupQueues   = "queues"
	groupMessages = "messages"
)

// exitCode sorts an error. One that is not sorted yet comes from cobra, and is
// about the command line.
func exitCode(err error) int {
	var (
		call *api.Error
		code interface{ ExitCode() int }
	)
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, errNothing):
		return ExitNothing
	case errors.As(err, &code):
		return code.ExitCode()
	case !errors.As(err, &call):
		return ExitUsage
	case call.Outcome == api.Refused:
		return ExitRefused
	case call.Outcome == api.Unknown:
		return ExitUnknown
	default:
		return ExitFailed
	}
}

// Failure is an error of a command that is not about its command line.
type Failure struct{ Err error }

func (f Failure) Error() string { return f.Err.Error() }
func (f Failure) Unwrap() error { return f.Err }

// ExitCode is that of a failed command.
func (f Failure) ExitCode() int { return ExitFailed }

func oneLine(err error) string {
	return strings.TrimSuffix(strings.Join(strings.Fields(err.Error()), " "), ".")
}
