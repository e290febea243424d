package nftcheck

import "sigs.k8s.io/knftables"

// Transaction is one that knows the parts of its table that it changes.
type Transaction struct {
	*knftables.Transaction
	parts map[string]struct{}
	whole bool // it changes the table itself
}

// NewTransaction returns one that changes nothing yet.
func NewTransaction(nft knftables.Interface) *Transaction {
	return &Transaction{Transaction: nft.NewTransaction(), parts: map[string]struct{}{}}
}

// Add is that of knftables.
func (tx *Transaction) Add(object knftables.Object) {
	tx.note(object)
	tx.Transaction.Add(object)
}

// Flush is that of knftables.
func (tx *Transaction) Flush(object knftables.Object) {
	tx.note(object)
	tx.Transaction.Flush(object)
}

// Delete is that of knftables.
func (tx *Transaction) Delete(object knftables.Object) {
	tx.note(object)
	tx.Transaction.Delete(object)
}

func (tx *Transaction) note(object knftables.Object) {
	switch o := object.(type) {
	case *knftables.Chain:
		tx.parts[o.Name] = struct{}{}
	case *knftables.Rule:
		tx.parts[o.Chain] = struct{}{}
	case *knftables.Set:
		tx.parts[o.Name] = struct{}{}
	case *knftables.Map:
		tx.parts[o.Name] = struct{}{}
	case *knftables.Element:
		tx.parts[o.Set+o.Map] = struct{}{} // it is of one of them
	default:
		tx.whole = true
	}
}
