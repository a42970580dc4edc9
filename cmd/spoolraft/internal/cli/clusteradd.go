package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
)

func clusterAddCommand() *cobra.Command {
	var (
		r    remote
		wait seconds
	)
	c := &cobra.Command{
		Use:   "add NODE",
		Short: "Say how to start a further node, and wait until it votes",
		Long: `Say how to start a further node, and wait until it votes. To start a node with an
empty directory is all that it takes to add it, before this command or after it. A
node under the name of one that is gone takes its place.

The exit code is 0 once the node votes, and 1 where that takes longer than --wait.`,
		Example: `  spoolraft cluster add n4
  spoolraft cluster add n4 --wait 0   # only say how`,
		Args: cobra.ExactArgs(1),
	}
	wait = seconds(10 * time.Minute)
	c.Flags().Var(&wait, "wait", "wait for so long")
	return r.spoolless(c, func(c *cobra.Command, client *api.Client, args []string) error {
		w := watcher{c, client, time.Duration(wait)}
		name := args[0]
		// The nodes may have been started a moment ago.
		_, o, err := w.until(func(api.Cluster) (bool, string) { return true, "" })
		if err != nil {
			return err
		}
		if !votes(o, name) {
			if err := explainStart(c, o, name); err != nil {
				return err
			}
		}
		if wait == 0 {
			return nil
		}
		raw, o, err := w.until(func(o api.Cluster) (bool, string) { return votes(o, name), progress(o, name) })
		switch {
		case err != nil:
			return err
		case !votes(o, name):
			return Failure{fmt.Errorf("%s does not vote after %v: %s", name, time.Duration(wait), progress(o, name))}
		case r.json:
			return printJSON(c.OutOrStdout(), raw)
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s votes. %s\n", name, describe(o))
		return outputError(err)
	})
}

// votes reports whether a node of the name is well and has its vote.
func votes(o api.Cluster, name string) bool {
	return o.Healthy && slices.ContainsFunc(o.Nodes, func(n api.Node) bool {
		return n.Name == name && n.Reachable && n.Role != api.RoleJoining && n.Role != api.RoleNonVoter
	})
}

// progress says how far a node of the name has come.
func progress(o api.Cluster, name string) string {
	found := named(o, name)
	there := slices.IndexFunc(found, func(n api.Node) bool { return n.Reachable })
	switch {
	case !o.Healthy:
		return unwell(o)
	case there >= 0:
		return name + " is " + stateOf(found[there])
	case len(found) > 0 && found[0].Role != api.RoleNonVoter:
		return name + " is " + stateOf(found[0]) + "; another of its name would take its place"
	case len(found) > 0:
		return name + " is " + stateOf(found[0])
	default:
		return name + " is not there yet"
	}
}

// explainStart prints what starts the node. It goes to standard error, where the
// command that waits says everything but its result.
func explainStart(c *cobra.Command, o api.Cluster, name string) error {
	var join []string
	for _, n := range o.Nodes {
		if n.GossipAddress != "" && n.Name != name {
			join = append(join, n.GossipAddress)
		}
	}
	if len(join) == 0 {
		return Failure{errors.New("the nodes of this cluster have no gossip address, since spoolraft dev runs them in one process; it takes no further ones")}
	}
	fmt.Fprintf(c.ErrOrStderr(), `Start %s on its machine, with an empty directory:

  spoolraft serve --node-id %s --data DIRECTORY --keys FILE --join %s --expect %d

`, name, name, strings.Join(join, ","), o.Voters)
	return nil
}
