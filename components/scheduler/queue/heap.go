package queue

// heap is a binary heap of items that know their place in it.
type heap struct {
	items []*Item
	less  func(a, b *Item) bool
}

func (h *heap) len() int { return len(h.items) }

func (h *heap) top() *Item {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

func (h *heap) push(i *Item) {
	i.at = len(h.items)
	h.items = append(h.items, i)
	h.up(i.at)
}

func (h *heap) remove(i *Item) {
	at, last := i.at, len(h.items)-1
	if at != last {
		h.swap(at, last)
	}
	h.items[last] = nil
	h.items = h.items[:last]
	if at != last {
		h.down(at)
		h.up(at)
	}
	i.at = -1
}

// fix restores the order after i changed.
func (h *heap) fix(i *Item) {
	h.down(i.at)
	h.up(i.at)
}

func (h *heap) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if !h.less(h.items[at], h.items[parent]) {
			return
		}
		h.swap(at, parent)
		at = parent
	}
}

func (h *heap) down(at int) {
	for {
		child := 2*at + 1
		if child >= len(h.items) {
			return
		}
		if right := child + 1; right < len(h.items) && h.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.less(h.items[child], h.items[at]) {
			return
		}
		h.swap(at, child)
		at = child
	}
}

func (h *heap) swap(a, b int) {
	h.items[a], h.items[b] = h.items[b], h.items[a]
	h.items[a].at, h.items[b].at = a, b
}
