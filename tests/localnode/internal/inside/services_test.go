/*
Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package inside

import (
	"io"
	"net"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPortsOf(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "api"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.20", Selector: map[string]string{"app": "api"}, Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
		}},
	}
	slice := func(namespace, port string, address string, ready bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: "api"}},
			Ports:      []discoveryv1.EndpointPort{{Name: &port, Port: new(int32(8080))}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		}
	}
	address := netip.MustParseAddrPort("10.0.0.20:80")
	for _, tt := range []struct {
		name      string
		endpoints []*discoveryv1.EndpointSlice
		ready     []netip.AddrPort
	}{
		{"a Service without Pods has a port that leads nowhere", nil, nil},
		{"a Pod that is ready is an endpoint, at its own port", []*discoveryv1.EndpointSlice{slice("apps", "http", "10.244.0.7", true)}, []netip.AddrPort{netip.MustParseAddrPort("10.244.0.7:8080")}},
		{"a Pod that isn't ready is none", []*discoveryv1.EndpointSlice{slice("apps", "http", "10.244.0.7", false)}, nil},
		{"a Pod of a Service of that name elsewhere is none", []*discoveryv1.EndpointSlice{slice("other", "http", "10.244.0.7", true)}, nil},
		{"another port of the Pod is none", []*discoveryv1.EndpointSlice{slice("apps", "metrics", "10.244.0.7", true)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(portsOf([]*corev1.Service{service}, tt.endpoints)).To(Equal(map[netip.AddrPort][]netip.AddrPort{address: tt.ready}))
		})
	}
}

func TestServices(t *testing.T) {
	g := NewWithT(t)
	pod, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = pod.Close() })
	go func() {
		for {
			conn, err := pod.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "the pod")
			_ = conn.Close()
		}
	}()
	endpoint := netip.MustParseAddrPort(pod.Addr().String())
	free, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	address := netip.MustParseAddrPort(free.Addr().String())
	g.Expect(free.Close()).To(Succeed())
	call := func() string {
		conn, err := net.Dial("tcp", address.String())
		if err != nil {
			return "refused"
		}
		defer conn.Close()
		answer, _ := io.ReadAll(conn)
		return string(answer)
	}

	all := newServices(nil)
	all.set(Names{"api.apps.svc.cluster.local": address.Addr()}, map[netip.AddrPort][]netip.AddrPort{address: {endpoint}})
	found, ok := all.find("api.apps.svc.cluster.local")
	g.Expect(ok).To(BeTrue())
	g.Expect(found).To(Equal(address.Addr()))
	g.Expect(call()).To(Equal("the pod"))
	all.set(nil, map[netip.AddrPort][]netip.AddrPort{address: nil})
	g.Expect(call()).To(BeEmpty(), "the connection ends, as no Pod is ready")
	all.set(nil, map[netip.AddrPort][]netip.AddrPort{address: {endpoint}})
	g.Expect(call()).To(Equal("the pod"))
	all.set(nil, nil)
	g.Expect(call()).To(Equal("refused"))
	_, ok = all.find("api.apps.svc.cluster.local")
	g.Expect(ok).To(BeFalse())
}
