// Package nftcheck tells whether a table of nftables is as its owner left it.
//
// A check costs one request as long as no program changes rules of the network namespace. After a change it lists the
// table by netlink: no part may be missing or too many, each has as many rules or elements as its owner wants, and
// those that their owner did not change since the last check are the same ones. What remains unnoticed is a rule or an
// element that is replaced one for one in a part that its owner changed since then.
package nftcheck

// Kernel has the table.
type Kernel interface {
	// Generation is a number that changes whenever rules of the network namespace do.
	Generation() (uint32, error)
	// Listing returns what the table holds.
	Listing() (Listing, error)
}

// Listing is what a table holds.
type Listing struct {
	// Active is false where there is no table, or a dormant one, whose rules do nothing.
	Active bool
	// Parts are its chains, sets and maps by their names, but for anonymous sets, which the kernel lets no program
	// change.
	Parts map[string]Part
}

// Part is a chain, a set or a map.
type Part struct {
	// Entries is how many rules or elements it has; 0 for sets that packets fill.
	Entries int
	// Sum differs where the part itself, or one of its entries, was replaced.
	Sum uint64
}

// Checker checks one table. It belongs to the goroutine that changes the table.
type Checker struct {
	kernel Kernel
	// generation is that of the last check, where there is one.
	generation uint32
	checked    bool
	// sums are those of the parts that are as they were at the last check.
	sums map[string]uint64
}

// New returns a Checker of a table.
func New(kernel Kernel) *Checker { return &Checker{kernel: kernel, sums: map[string]uint64{}} }

// Changes tells that the owner of the table is about to carry out a transaction.
func (c *Checker) Changes(tx *Transaction) {
	c.checked = false
	if tx.whole {
		clear(c.sums)
	}
	for name := range tx.parts {
		delete(c.sums, name)
	}
}

// Intact tells whether the table is as its owner left it: want returns how many entries each part has, and leftover
// tells of other parts whether the owner has yet to delete them.
func (c *Checker) Intact(want func() map[string]int, leftover func(part string) bool) (bool, error) {
	generation, err := c.kernel.Generation()
	if err != nil {
		return false, err
	}
	if c.checked && generation == c.generation {
		return true, nil
	}
	wanted := want()
	// The kernel may skip elements of a set that it resizes meanwhile, so that it is asked twice.
	for range 2 {
		listing, err := c.kernel.Listing()
		if err != nil {
			return false, err
		}
		if c.matches(listing, wanted, leftover) {
			c.remember(listing, generation)
			return true, nil
		}
	}
	return false, nil
}

func (c *Checker) matches(listing Listing, wanted map[string]int, leftover func(string) bool) bool {
	if !listing.Active {
		return false
	}
	for name, entries := range wanted {
		if part, there := listing.Parts[name]; !there || part.Entries != entries {
			return false
		}
	}
	for name, part := range listing.Parts {
		if _, is := wanted[name]; !is && !leftover(name) {
			return false
		}
		if sum, known := c.sums[name]; known && sum != part.Sum {
			return false
		}
	}
	return true
}

// remember takes a listing for what the next ones are compared with.
func (c *Checker) remember(listing Listing, generation uint32) {
	clear(c.sums)
	for name, part := range listing.Parts {
		c.sums[name] = part.Sum
	}
	c.generation, c.checked = generation, true
}
