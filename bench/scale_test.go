package bench

import "testing"

// The largest cluster is what was asked for, or fits into half of the machine's memory.
func TestLargestCluster(t *testing.T) {
	if n, err := (Options{Nodes: 16, PodsPerNode: 30}).largest(); n != 16 || err != nil {
		t.Errorf("%d nodes, %v", n, err)
	}
	few, err := Options{PodsPerNode: 30}.largest()
	many, _ := Options{PodsPerNode: 1}.largest()
	if err != nil || few < leastNodes || many > mostNodes || few > many {
		t.Errorf("%d nodes with 30 pods each, %d with one; %v", few, many, err)
	}
}

// Growth is told apart from what a cluster of any size takes.
func TestEachNode(t *testing.T) {
	of := func(nodes, mib float64) []Measure {
		return []Measure{{Name: nodesMeasure, Value: nodes}, {Name: residentMeasure, Value: mib}}
	}
	if m := eachNode(of(10, 150), of(20, 155)); m.Value != 0.5 {
		t.Errorf("%+v", m)
	}
}
