package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cluster"
)

// recoverFlags are those of cluster recover.
type recoverFlags struct {
	data, into string
	accepted   bool
}

const flagAccept = "accept-data-loss"

func clusterRecoverCommand() *cobra.Command {
	var f recoverFlags
	c := &cobra.Command{
		Use:   "recover --data DIR",
		Short: "Found the cluster anew on what one node has left",
		Long: `Found the cluster anew on what one node has left, where a majority of the nodes is
lost for good. While they can be brought back with their directories, do that.

Without --` + flagAccept + ` it tells what is left in the directory and what going on from
there means, and changes nothing. Look at the directories of all nodes that are
left, and recover the one whose log ends with the highest term, and among those
with the highest entry. The node must be stopped.

With it, a cluster of this one node is made in the directory --into, and no node
starts on the old directory any more. Start the node on the new one, then the
others with empty directories.

Exit codes: 0 recovered. 1 nothing was changed, since the directory cannot be used.
2 wrong arguments, or --` + flagAccept + ` is missing.`,
		Example: `  spoolraft cluster recover --data /var/lib/spoolraft
  spoolraft cluster recover --data /var/lib/spoolraft --into /var/lib/spoolraft-2 --` + flagAccept,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case f.data == "":
				return usagef("no --data: name the data directory of a node that is left")
			case f.accepted && f.into == "":
				return usagef("no --into: name a directory that does not exist, for the new cluster's first node")
			}
			return f.run(c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&f.data, "data", "", "data directory of the node, which must be stopped")
	c.Flags().StringVar(&f.into, "into", "", "directory to make for the node of the new cluster")
	c.Flags().BoolVar(&f.accepted, flagAccept, false, "go ahead: what the lost nodes had and this one has not is lost")
	return c
}

func (f *recoverFlags) run(out io.Writer) error {
	r, err := cluster.Examine(f.data)
	if err != nil {
		return Failure{err}
	}
	defer r.Close()
	if _, err := io.WriteString(out, f.account(r)); err != nil {
		return outputError(err)
	}
	if !f.accepted {
		return usageError{"nothing was changed; give --" + flagAccept + " and --into to go ahead"}
	}
	made, err := r.Recover(f.into)
	if err != nil {
		return Failure{fmt.Errorf("the cluster was not recovered: %w", err)}
	}
	_, err = fmt.Fprintf(out, `
The cluster %s was made in %s. Start the node on it:

  spoolraft serve --node-id %s --data %s ...

Then start the others with empty directories. No node starts on %s any more; keep
it until you are sure that nothing in it is needed.
`, made, f.into, r.NodeID, f.into, f.data)
	return outputError(err)
}

// account says what is left and what is not.
func (f *recoverFlags) account(r *cluster.Remains) string {
	var b strings.Builder
	fmt.Fprintf(&b, `What is left in %s:

  node      %s (instance %s)
  cluster   %s
  members   %s
  log       ends with entry %d of term %d, at %s
  state     %d queues, %d messages

`, f.data, r.NodeID, r.InstanceID, r.ClusterID, strings.Join(r.Members, ", "), r.LastIndex, r.LastTerm,
		time.UnixMilli(r.NowMs).UTC().Format(time.RFC3339), r.Queues, r.Messages)
	if r.Removed {
		b.WriteString("NOTE: this node was removed from the cluster, which may have gone on without it.\n\n")
	}
	if r.Successor != "" {
		fmt.Fprintf(&b, "NOTE: the cluster %s was recovered from this directory before. Another one would be a second.\n\n", r.Successor)
	}
	others := r.Lost()
	if others == "" {
		others = "nobody"
	}
	fmt.Fprintf(&b, `To go on from here gives the others up for good (%s):

  - What they had and this node had not is lost, although it was answered as stored: sends and the keys
    of sends, settles, changes of queues. A send that is repeated is then stored, perhaps for the second
    time. How much that is cannot be told from here. It is what was under way at the end, if this node
    was in touch with them until then, and all since it lost touch, if it was not.
  - The log may end with changes that nobody was told of as made. They will have been made.
  - Every lease ends, and its message is delivered again. Leases and handles that were given out are void,
    queues have other uids, and new ids go on a billion further up, so that none is given twice.
  - The new cluster has another id. The others take no part in it with the directories that they have.
    Never start them on those again: several of them would be the old cluster, and take calls of their own.
`, others)
	return b.String()
}
