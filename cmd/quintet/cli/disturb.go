package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/cluster"
)

// disturbance is a fault between the parts of a cluster, which lasts as long as the command.
type disturbance struct {
	use, short, example string
	members             int // how many members the arguments name; 0: any number of members and components
	begin               func(ctx context.Context, c *cluster.Cluster, members []*cluster.Member) (cluster.Heal, error)
}

func (a *app) disturbances() []*cobra.Command {
	var by, jitter time.Duration
	delay := a.disturb(&disturbance{use: "delay MEMBER", short: "Hold back the packets that leave a member",
		example: "  quintet delay etcd-0 --by 100ms --jitter 20ms --for 30s", members: 1,
		begin: func(ctx context.Context, c *cluster.Cluster, m []*cluster.Member) (cluster.Heal, error) {
			return c.Delay(ctx, m[0], by, jitter)
		}})
	delay.Flags().DurationVar(&by, "by", 100*time.Millisecond, "how long each packet is held back")
	delay.Flags().DurationVar(&jitter, "jitter", 0, "how much more or less that may be")

	var percent string
	lose := a.disturb(&disturbance{use: "lose MEMBER", short: "Drop a part of a member's packets",
		example: "  quintet lose node-1 --percent 10% --for 30s", members: 1,
		begin: func(ctx context.Context, c *cluster.Cluster, m []*cluster.Member) (cluster.Heal, error) {
			part, err := strconv.ParseFloat(strings.TrimSuffix(percent, "%"), 64)
			if err != nil {
				return nil, fmt.Errorf("--percent %s: no number", percent)
			}
			return c.Lose(ctx, m[0], part/100)
		}})
	lose.Flags().StringVar(&percent, "percent", "10%", "the part that is dropped, in each direction")

	cut := a.disturb(&disturbance{use: "cut MEMBER MEMBER", short: "Drop all packets between two members",
		example: "  quintet cut apiserver-0 etcd-0 --for 10s", members: 2,
		begin: func(ctx context.Context, c *cluster.Cluster, m []*cluster.Member) (cluster.Heal, error) {
			return c.Cut(ctx, m[0], m[1])
		}})

	var free string
	fill := a.disturb(&disturbance{use: "fill-disk MEMBER",
		short:   "Fill the disk of an etcd member or a node, which up --etcd-disk or --node-disk gave it",
		example: "  quintet fill-disk etcd-0 --free 1Mi --for 30s", members: 1,
		begin: func(ctx context.Context, c *cluster.Cluster, m []*cluster.Member) (cluster.Heal, error) {
			left, err := resource.ParseQuantity(free)
			if err != nil {
				return nil, fmt.Errorf("--free %s: %w", free, err)
			}
			return c.FillDisk(ctx, m[0], left.Value())
		}})
	fill.Flags().StringVar(&free, "free", "0", "what is left of the disk")

	var shift time.Duration
	shiftClock := a.disturb(&disturbance{use: "shift-clock MEMBER|COMPONENT...",
		short: "Put the clocks of members forward or back",
		example: "  quintet shift-clock kube-scheduler --by +2h --for 30s        # all schedulers\n" +
			"  quintet shift-clock node-1 --by -15m",
		begin: func(ctx context.Context, c *cluster.Cluster, m []*cluster.Member) (cluster.Heal, error) {
			return shiftClocks(ctx, c, m, shift)
		}})
	shiftClock.Flags().DurationVar(&shift, "by", time.Hour, "how far forward, or back if it is negative")
	return []*cobra.Command{delay, lose, cut, fill, shiftClock}
}

// shiftClocks shifts all clocks or none.
func shiftClocks(ctx context.Context, c *cluster.Cluster, members []*cluster.Member,
	by time.Duration) (cluster.Heal, error) {
	var heals []cluster.Heal
	heal := func(ctx context.Context) error {
		var errs []error
		for _, heal := range heals {
			errs = append(errs, heal(ctx))
		}
		return errors.Join(errs...)
	}
	for _, m := range members {
		healOne, err := c.ShiftClock(ctx, m, by)
		if err != nil {
			healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			return nil, errors.Join(err, heal(healing))
		}
		heals = append(heals, healOne)
	}
	return heal, nil
}

// named are the members that the arguments name.
func (d *disturbance) named(c *cluster.Cluster, args []string) ([]*cluster.Member, error) {
	if d.members == 0 {
		return meant(c, args)
	}
	var members []*cluster.Member
	for _, name := range args {
		members = append(members, c.Member(name))
	}
	return members, nil
}

func (a *app) disturb(d *disturbance) *cobra.Command {
	var lasting time.Duration
	cmd := &cobra.Command{Use: d.use, Short: d.short, Example: d.example, Args: cobra.ExactArgs(d.members)}
	if d.members == 0 {
		cmd.Args = cobra.MinimumNArgs(1)
	}
	cmd.Flags().DurationVar(&lasting, "for", 0, "how long it lasts; 0 is until the command is interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if lasting < 0 {
			return fmt.Errorf("--for %v: it may not be negative", lasting)
		}
		c, err := a.open(cmd)
		if err != nil {
			return err
		}
		defer c.Close()
		members, err := d.named(c, args)
		if err != nil {
			return err
		}
		heal, err := d.begin(cmd.Context(), c, members)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.err, "%s: begun.\n", cmd.CommandPath()+" "+strings.Join(args, " "))
		var over <-chan time.Time
		if lasting > 0 {
			over = time.After(lasting)
		}
		select {
		case <-over:
		case <-cmd.Context().Done():
		}
		healing, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), time.Minute)
		defer cancel()
		if err := heal(healing); err != nil {
			return err
		}
		fmt.Fprintln(a.err, "Healed.")
		return nil
	}
	return cmd
}
