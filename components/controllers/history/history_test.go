package history

import "testing"

// The name is what upstream's controller gives a revision of the same content: whichever manager made it, it is found again.
func TestHashCountsCollisionsFromZero(t *testing.T) {
	const content = `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"db":"r"}},"spec":{"containers":[{"image":"img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}`
	if hash := Hash([]byte(content), 0); hash != "6bd6cbf7bf" {
		t.Error(hash)
	}
	if Hash([]byte(content), 1) == Hash([]byte(content), 0) {
		t.Error("a collision changes nothing")
	}
}
