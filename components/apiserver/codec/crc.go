package codec

import "hash/crc32"

// A CRC is linear over GF(2): appending a zero bit to a text multiplies its CRC by a fixed 32 x 32 matrix. With the
// powers of that matrix, the CRC of two texts in a row comes from those of each.

// matrix maps CRCs; element i is the image of bit i.
type matrix [32]uint32

func (m *matrix) times(v uint32) uint32 {
	var sum uint32
	for i := 0; v != 0; i, v = i+1, v>>1 {
		if v&1 != 0 {
			sum ^= m[i]
		}
	}
	return sum
}

func (m *matrix) squared() *matrix {
	var out matrix
	for i := range out {
		out[i] = m.times(m[i])
	}
	return &out
}

// zeros holds, at i, the matrix that appends 2^i zero bytes.
var zeros = func() (out [40]*matrix) {
	m := &matrix{crc32.IEEE} // appends one zero bit: shifts right, and folds in the polynomial
	for i := 1; i < 32; i++ {
		m[i] = 1 << (i - 1)
	}
	m = m.squared().squared().squared()
	for i := range out {
		out[i] = m
		m = m.squared()
	}
	return out
}()

// combineCRC returns the CRC of two texts in a row; size is the length of the second, in bytes.
func combineCRC(first, second uint32, size int64) uint32 {
	for i := 0; size > 0; i, size = i+1, size>>1 {
		if size&1 != 0 {
			first = zeros[i].times(first)
		}
	}
	return first ^ second
}
