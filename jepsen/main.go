package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spoolraft/spoolraft/jepsen/internal/fake"
	"github.com/spoolraft/spoolraft/jepsen/internal/mutant"
	"github.com/spoolraft/spoolraft/jepsen/internal/nemesis"
	"github.com/spoolraft/spoolraft/jepsen/internal/workload"
)

// Exit codes.
const (
	exitPassed    = 0
	exitViolation = 1
	exitUsage     = 2
	exitNoRun     = 3 // the run could not be made: nothing is said about the cluster
)

// errViolation: the cluster did what it must not.
var errViolation = errors.New("the contract was violated")

// errUnnoticed: a planted bug was not found by those that have to find it.
var errUnnoticed = errors.New("not every planted bug was found")

// usageError is a wrong command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command runs one subcommand and returns the exit code.
func command(ctx context.Context, args []string, out, errOut io.Writer) int {
	err := dispatch(ctx, args, out, errOut)
	var usage usageError
	switch {
	case err == nil:
		return exitPassed
	case errors.Is(err, errViolation):
		return exitViolation
	case errors.Is(err, errUnnoticed):
		fmt.Fprintf(errOut, "jepsen: %v\n", err)
		return exitViolation
	case errors.As(err, &usage):
		fmt.Fprintf(errOut, "jepsen: %v\nSee: jepsen help\n", err)
		return exitUsage
	default:
		fmt.Fprintf(errOut, "jepsen: %v\n", err)
		return exitNoRun
	}
}

func dispatch(ctx context.Context, args []string, out, errOut io.Writer) error {
	if len(args) == 0 {
		args = []string{"help"}
	}
	switch args[0] {
	case "run":
		return runCommand(ctx, args[1:], out, errOut)
	case "matrix":
		return matrixCommand(ctx, args[1:], out, errOut)
	case "planted":
		return plantedCommand(ctx, args[1:], out, errOut)
	case "check":
		return checkCommand(args[1:], out, errOut)
	case "list":
		return listCommand(out)
	case "help", "-h", "--help":
		fmt.Fprint(out, help)
		return nil
	}
	return usageError{fmt.Errorf("there is no command %q", args[0])}
}

func listCommand(out io.Writer) error {
	bugs, err := mutant.All()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Workloads:\n%s\nFaults:\n%s\nBugs that can be planted in the server:\n", workload.List(), nemesis.List())
	for _, m := range bugs {
		fmt.Fprintf(out, "  %-34s%s\n", m.Name, m.Breaks)
	}
	fmt.Fprintf(out, "  %-34s(with a fault of the disk) flushes are acknowledged and make nothing safe\n\nBugs of --deploy fake:\n", lyingDisk)
	for _, b := range fake.Bugs() {
		fmt.Fprintf(out, "  %s\n", b)
	}
	return nil
}

const help = `jepsen hurts a cluster and checks that it keeps its promises.

  jepsen run [flags]   start a cluster, drive a workload, inject faults, check
  jepsen matrix [flags] run each workload with each fault, and print a table
  jepsen planted       plant bugs in the server, and see that each is found
  jepsen check DIR     check the history of a run again
  jepsen list          the workloads and faults there are

  jepsen run --help    the flags

A run prints its seed; the same seed makes the same choices again. It writes
history.jsonl, summary.txt and report.html into its directory, and of a run that
failed also the nodes' logs and data. Exit code 0: passed. 1: the contract was
violated, or a planted bug was not found. 2: wrong usage. 3: the run could not be made.
`
