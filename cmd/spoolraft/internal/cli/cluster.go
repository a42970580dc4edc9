package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
)

func clusterCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "cluster",
		Short:   "Look at a cluster, add and remove nodes, move the lead, recover",
		GroupID: groupServer,
		Long: `Look at a cluster, add and remove nodes, move the lead. Any node of the cluster can
be asked; the key needs the scope admin. docs/operations.md goes through what there
is to do.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		Example: `  spoolraft cluster status
  spoolraft cluster add n4
  spoolraft cluster remove n2
  spoolraft cluster transfer n3`,
	}
	c.AddCommand(clusterStatusCommand(), clusterAddCommand(), clusterRemoveCommand(), clusterTransferCommand(), clusterRecoverCommand())
	return c
}

func clusterStatusCommand() *cobra.Command {
	var (
		r    remote
		wait seconds
	)
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes, and how many may fail",
		Long: `Show the nodes, and how many may fail. LAG is how many log entries a node is behind
the leader, CLOCK how far its clock is ahead of the leader's.

The exit code is 0 where a majority of the voters is well, and 1 where not. With
--wait it is 0 once every node is well, and 1 where that takes longer.`,
		Example: `  spoolraft cluster status
  spoolraft cluster status --wait 1m
  spoolraft cluster status --json`,
		Args: cobra.NoArgs,
	}
	c.Flags().Var(&wait, "wait", "wait for so long until every node is well")
	return r.spoolless(c, func(c *cobra.Command, client *api.Client, _ []string) error {
		w := watcher{c, client, time.Duration(wait)}
		raw, o, err := w.until(func(o api.Cluster) (bool, string) { return wait == 0 || allWell(o), unwell(o) })
		if err != nil {
			return err
		}
		if r.json {
			err = printJSON(c.OutOrStdout(), raw)
		} else {
			err = printCluster(c, o)
		}
		switch {
		case err != nil:
			return err
		case wait > 0 && !allWell(o):
			return Failure{fmt.Errorf("not every node is well after %v: %s", time.Duration(wait), unwell(o))}
		case !o.Healthy:
			return Failure{errors.New("a majority of the voters is not well: " + unwell(o))}
		}
		return nil
	})
}

// allWell reports whether every node votes and is well.
func allWell(o api.Cluster) bool { return o.Healthy && o.Well == len(o.Nodes) }

// unwell says what is wrong, "" where nothing is.
func unwell(o api.Cluster) string {
	var faults []string
	if !o.Healthy && o.Leader == "" {
		faults = append(faults, o.SeenBy+" knows no leader")
	}
	for _, n := range o.Nodes {
		if state := stateOf(n); state != "up" {
			faults = append(faults, n.Name+" is "+state)
		}
	}
	return strings.Join(faults, ", ")
}

// stateOf is how a node is, in a word or a few.
func stateOf(n api.Node) string {
	switch {
	case !n.Reachable && n.LastContactMs < 1000:
		return "not reached"
	case !n.Reachable:
		return "not heard of for " + (time.Duration(n.LastContactMs) * time.Millisecond).Round(time.Second).String()
	case n.Role == api.RoleJoining:
		return "waiting to be taken in"
	case n.Role == api.RoleNonVoter || n.LagEntries > lagTold:
		return fmt.Sprintf("catching up (%d entries to go)", n.LagEntries)
	case n.Diverged:
		return "in another state than the leader"
	case n.DiskFull:
		return "without disk space"
	default:
		return "up"
	}
}

// lagTold is how many entries a voter may be behind and be up to date, as the
// server has it.
const lagTold = 4096

func printCluster(c *cobra.Command, o api.Cluster) error {
	out := c.OutOrStdout()
	fmt.Fprintln(out, describe(o))
	rows := [][]string{{"NODE", "ROLE", "STATE", "LAG", "APPLIED", "CLOCK", "VERSION", "API", "PEER", "INSTANCE"}}
	for _, n := range o.Nodes {
		row := []string{n.Name, n.Role, stateOf(n), "-", "-", "-", orDash(n.Version), orDash(n.APIAddress), orDash(n.PeerAddress), n.Instance}
		if n.Reachable {
			row[3], row[4] = count(n.LagEntries), count(n.AppliedIndex)
			row[5] = (time.Duration(n.ClockOffsetMs) * time.Millisecond).String()
		}
		rows = append(rows, row)
	}
	return table(out, rows)
}

// describe says how the cluster is, in a line.
func describe(o api.Cluster) string {
	switch {
	case o.ClusterID == "":
		return "There is no cluster yet, as " + o.SeenBy + " sees it."
	case o.Healthy:
		return fmt.Sprintf("Cluster %s is well: %s leads, %d of %d voters are well, %d more may fail.", o.ClusterID, o.Leader, o.Well, o.Voters, o.MayFail)
	case o.Leader == "":
		return fmt.Sprintf("Cluster %s has no leader, as %s sees it, which reaches %d of %d voters.", o.ClusterID, o.SeenBy, o.Well, o.Voters)
	default:
		return fmt.Sprintf("Cluster %s is not well, as %s sees it: %s leads, %d of %d voters are well.", o.ClusterID, o.SeenBy, o.Leader, o.Well, o.Voters)
	}
}

func clusterRemoveCommand() *cobra.Command {
	var (
		r        remote
		instance string
	)
	c := &cobra.Command{
		Use:   "remove NODE",
		Short: "Take a node out of the cluster for good",
		Long: `Take a node out of the cluster for good, dead or alive. One that leads hands over
first. One that runs ends by itself, with exit code 6, and may come back with an
empty directory as a new node.

Refused where the nodes that would be left and are well would be no majority of
those that would be left: the cluster would stop. That cannot be forced.`,
		Example: `  spoolraft cluster remove n2`,
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().StringVar(&instance, "instance", "", "only the node of this instance, as status shows it")
	return r.spoolless(c, func(c *cobra.Command, client *api.Client, args []string) error {
		w := watcher{c, client, time.Duration(r.timeout)}
		name := args[0]
		if instance == "" {
			var err error
			if instance, err = w.instanceOf(name); err != nil {
				return err
			}
		}
		w.tell("removing " + name)
		err := client.RemoveNode(c.Context(), name, instance)
		if call := (*api.Error)(nil); errors.As(err, &call) && call.Outcome == api.Unknown {
			w.tell("the outcome is not known yet: " + oneLine(err))
			err = w.gone(err, name, instance)
		}
		if err != nil {
			return err
		}
		raw, o, err := w.once()
		if err != nil { // the node that was asked may be the one that has gone
			fmt.Fprintf(c.OutOrStdout(), "%s was removed.\n", name)
			return nil
		}
		if r.json {
			return printJSON(c.OutOrStdout(), raw)
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s was removed. %s\n", name, describe(o))
		return outputError(err)
	})
}

func clusterTransferCommand() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:   "transfer [NODE]",
		Short: "Move the lead to another node",
		Long: `Move the lead to another node: the one that is named, or one that is up to date.
Calls that come meanwhile wait for a moment and go on.`,
		Example: `  spoolraft cluster transfer
  spoolraft cluster transfer n3`,
		Args: cobra.MaximumNArgs(1),
	}
	return r.spoolless(c, func(c *cobra.Command, client *api.Client, args []string) error {
		raw, err := client.TransferLead(c.Context(), strings.Join(args, ""))
		if err != nil || r.json {
			return r.printRaw(c, raw, advise(err, "Look who leads with spoolraft cluster status."))
		}
		a, err := decode[struct{ Leader string }](raw)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s leads.\n", a.Leader)
		return outputError(err)
	})
}

// watcher looks at a cluster again and again while it changes.
type watcher struct {
	c        *cobra.Command
	client   *api.Client
	patience time.Duration
}

const watchEvery = 300 * time.Millisecond

func (w watcher) once() (json.RawMessage, api.Cluster, error) {
	raw, err := w.client.Cluster(w.c.Context())
	if err != nil {
		return nil, api.Cluster{}, err
	}
	o, err := decode[api.Cluster](raw)
	return raw, o, err
}

// until looks until it is done or the patience is over, and returns what it saw
// last. It tells a person what is missing whenever that changes. A node that does
// not answer for a moment is one more thing to wait for.
func (w watcher) until(done func(api.Cluster) (bool, string)) (raw json.RawMessage, o api.Cluster, err error) {
	var said progressTeller
	for end := time.Now().Add(w.patience); ; {
		var ok bool
		what := ""
		if raw, o, err = w.once(); err == nil {
			ok, what = done(o)
		} else if call := (*api.Error)(nil); !errors.As(err, &call) || call.Outcome == api.Refused {
			return raw, o, err
		} else {
			what = oneLine(err)
		}
		if ok || time.Until(end) < watchEvery {
			return raw, o, err
		}
		if said.isNews(what) {
			w.tell("waiting: " + what)
		}
		if err := sleep(w.c.Context(), watchEvery); err != nil {
			return raw, o, Failure{err}
		}
	}
}

// progressTeller sorts out what a person need not read again: numbers move on all
// the time.
type progressTeller struct {
	last string
	at   time.Time
}

const numbersEvery = 5 * time.Second

func (p *progressTeller) isNews(what string) bool {
	words := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, s)
	}
	if what == p.last || words(what) == words(p.last) && time.Since(p.at) < numbersEvery {
		return false
	}
	p.last, p.at = what, time.Now()
	return true
}

func (w watcher) tell(what string) { fmt.Fprintln(w.c.ErrOrStderr(), what) }

// instanceOf is that of the only node of a name, "" where there are several.
func (w watcher) instanceOf(name string) (string, error) {
	_, o, err := w.once()
	if err != nil {
		return "", err
	}
	found := named(o, name)
	if len(found) != 1 {
		return "", nil // the server says what it thinks of none
	}
	return found[0].Instance, nil
}

func named(o api.Cluster, name string) (found []api.Node) {
	return slices.DeleteFunc(slices.Clone(o.Nodes), func(n api.Node) bool { return n.Name != name })
}

// gone waits for a removal of unknown outcome to have happened.
func (w watcher) gone(unknown error, name, instance string) error {
	is := func(n api.Node) bool { return n.Name == name && (instance == "" || n.Instance == instance) }
	there := true
	_, _, err := w.until(func(o api.Cluster) (bool, string) {
		there = !o.Healthy || slices.ContainsFunc(o.Nodes, is)
		return !there, name + " is still there"
	})
	if err != nil || there {
		return unknown
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
