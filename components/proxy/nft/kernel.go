package nft

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/internal/nftcheck"
)

// kernel is the table of a family in this network namespace. It writes by the program nft, and looks at chains and sets
// by netlink: nft would read the whole table for one of them.
type kernel struct {
	knftables.Interface
	table *nftables.Table
}

// Open returns the ways to the table of a family in this network namespace.
func Open(family v1.IPFamily) (knftables.Interface, nftcheck.Kernel, error) {
	nft, err := knftables.New(knftables.Family(keyword(family)), table,
		knftables.NoObjectCommentEmulation, knftables.UseNetlink)
	if err != nil {
		return nil, nil, fmt.Errorf("nftables (is the program nft installed, and is this run as root?): %w", err)
	}
	of := nftables.TableFamilyIPv4
	if family == v1.IPv6Protocol {
		of = nftables.TableFamilyIPv6
	}
	return kernel{nft, &nftables.Table{Name: table, Family: of}}, nftcheck.Table{Name: table, Family: uint8(of)}, nil
}

// exists tells whether the table is there. The errors of what is asked about its parts don't say so.
func (k kernel) exists(conn *nftables.Conn) (bool, error) {
	tables, err := conn.ListTablesOfFamily(k.table.Family)
	return slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == k.table.Name }), err
}

// List implements knftables.Interface. In a table that isn't there yet there is nothing.
func (k kernel) List(ctx context.Context, kind string) ([]string, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	if found, err := k.exists(conn); err != nil || !found {
		return nil, err
	}
	return k.Interface.List(ctx, kind)
}

// ListElements implements knftables.Interface; those of a set must be addresses.
func (k kernel) ListElements(ctx context.Context, kind, name string) ([]*knftables.Element, error) {
	if kind != "set" {
		return k.Interface.ListElements(ctx, kind, name)
	}
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	found, err := conn.GetSetElements(&nftables.Set{Table: k.table, Name: name})
	if err != nil {
		return nil, err
	}
	var elements []*knftables.Element
	for _, e := range found {
		address, ok := netip.AddrFromSlice(e.Key)
		if !ok {
			return nil, fmt.Errorf("set %s: an element of %d bytes is no address", name, len(e.Key))
		}
		elements = append(elements, &knftables.Element{Set: name, Key: []string{address.String()}})
	}
	return elements, nil
}
