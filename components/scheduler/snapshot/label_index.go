package snapshot

import "slices"

// labelIndex finds, among objects that ask something of a node's labels, those that a node may satisfy. Its lists are
// in the order of compare, which is 0 for the same object only.
type labelIndex[T any] struct {
	compare  func(a, b T) int
	anywhere []T // those that ask for nothing that the index understands
	at       map[string]map[string][]T
}

// asked is one of several values of a label that an object asks for; an empty key is any node.
type asked struct {
	key    string
	values []string
}

func newLabelIndex[T any](compare func(a, b T) int) *labelIndex[T] {
	return &labelIndex[T]{compare: compare, at: map[string]map[string][]T{}}
}

func (x *labelIndex[T]) add(obj T, a asked) {
	if a.key == "" {
		x.anywhere = insert(x.anywhere, obj, x.compare)
		return
	}
	if x.at[a.key] == nil {
		x.at[a.key] = map[string][]T{}
	}
	for _, value := range a.values {
		x.at[a.key][value] = insert(x.at[a.key][value], obj, x.compare)
	}
}

func (x *labelIndex[T]) remove(obj T, a asked) {
	if a.key == "" {
		x.anywhere = without(x.anywhere, obj, x.compare)
		return
	}
	for _, value := range a.values {
		if left := without(x.at[a.key][value], obj, x.compare); len(left) > 0 {
			x.at[a.key][value] = left
		} else {
			delete(x.at[a.key], value)
		}
	}
	if len(x.at[a.key]) == 0 {
		delete(x.at, a.key)
	}
}

// find calls visit with lists in order until it returns false. An object is in one list only.
func (x *labelIndex[T]) find(labels map[string]string, visit func([]T) bool) {
	if len(x.anywhere) > 0 && !visit(x.anywhere) {
		return
	}
	for key, byValue := range x.at {
		value, ok := labels[key]
		if !ok {
			continue
		}
		if list := byValue[value]; len(list) > 0 && !visit(list) {
			return
		}
	}
}

func (x *labelIndex[T]) empty() bool { return len(x.anywhere)+len(x.at) == 0 }

func insert[T any](list []T, obj T, compare func(a, b T) int) []T {
	if i, found := slices.BinarySearchFunc(list, obj, compare); !found {
		return slices.Insert(list, i, obj)
	}
	return list
}

func without[T any](list []T, obj T, compare func(a, b T) int) []T {
	if i, found := slices.BinarySearchFunc(list, obj, compare); found {
		return slices.Delete(list, i, i+1)
	}
	return list
}
