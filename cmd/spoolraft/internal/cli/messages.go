package cli

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
)

func messagesCommand() *cobra.Command {
	var (
		r       remote
		l       listFlags
		state   string
		handles bool
	)
	c := &cobra.Command{
		Use:     "messages QUEUE",
		Short:   "List the messages of a queue, without payloads",
		GroupID: groupMessages,
		Example: `  spoolraft messages jobs
  spoolraft messages jobs --state failed --handle`,
		Args: cobra.ExactArgs(1),
	}
	l.add(c.Flags(), false)
	c.Flags().StringVar(&state, "state", "", "only those that are delayed, visible, pending, failed or unavailable")
	c.Flags().BoolVar(&handles, "handle", false, "with their handles, to inspect, recover or discard them")
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		raw, err := client.Messages(c.Context(), args[0], state, handles, l.List)
		if err != nil || r.json {
			return r.printRaw(c, raw, err)
		}
		page, err := decode[api.Page[api.Message]](raw)
		if err != nil {
			return err
		}
		head := []string{"ID", "STATE", "RETRIES", "CREATED", "VISIBLE", "LEASE ENDS", "EXPIRES"}
		if handles {
			head = append(head, "HANDLE")
		}
		rows := [][]string{head}
		for _, m := range page.Items {
			row := []string{
				m.ID, m.State, strconv.Itoa(m.Retries), m.CreatedAt,
				orDash(m.VisibleAt), orDash(m.LeaseExpiresAt), orDash(m.ExpiresAt),
			}
			if handles {
				row = append(row, orDash(m.Handle))
			}
			rows = append(rows, row)
		}
		more(c.ErrOrStderr(), page.Next)
		return table(c.OutOrStdout(), rows)
	})
}

func inspectCommand() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:     "inspect HANDLE",
		Short:   "Read a message by its handle, without moving it",
		GroupID: groupMessages,
		Example: `  spoolraft inspect "$HANDLE"`,
		Args:    cobra.ExactArgs(1),
	}
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		d, err := client.Inspect(c.Context(), args[0])
		if err != nil {
			return err
		}
		if r.json {
			return printDeliveryJSON(c.OutOrStdout(), d)
		}
		rows := [][]string{{"Message", d.ID}, {"State", d.State}, {"Retries", strconv.Itoa(d.Retries)}}
		return printDelivery(c.OutOrStdout(), rows, d.Payload)
	})
}

func recoverCommand() *cobra.Command {
	var (
		r     remote
		delay seconds
	)
	c := &cobra.Command{
		Use:     "recover HANDLE",
		Short:   "Return a failed message to its queue",
		Long:    `Return a failed message to its queue, with no retry counted.`,
		GroupID: groupMessages,
		Example: `  spoolraft recover "$HANDLE" --delay 1m`,
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().Var(&delay, "delay", "keep the message invisible for so long")
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		return advise(client.Recover(c.Context(), args[0], time.Duration(delay)),
			"Do it again: the answer stale_token then means that it was recovered.")
	})
}
