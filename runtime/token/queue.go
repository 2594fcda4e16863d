package token

// queue is a binary heap: pop yields the element that comes before all others.
type queue[T interface{ before(T) bool }] []T

// init puts the elements in heap order.
func (q queue[T]) init() {
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *queue[T]) push(x T) {
	*q = append(*q, x)
	h := *q
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !x.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = x
}

func (q *queue[T]) pop() T {
	h := *q
	top, last := h[0], len(h)-1
	h[0] = h[last]
	*q = h[:last]
	if last > 0 {
		h[:last].down(0)
	}
	return top
}

func (q queue[T]) down(i int) {
	x := q[i]
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if right := child + 1; right < len(q) && q[right].before(q[child]) {
			child = right
		}
		if !q[child].before(x) {
			break
		}
		q[i] = q[child]
		i = child
	}
	q[i] = x
}
