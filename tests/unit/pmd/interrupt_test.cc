// RX interrupts that a bus cannot give. A port of the model is made to look like one on PCI.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <rte_interrupts.h>
#include <rte_log.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "pmd/ethdev/port.h"
#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

class Mute final : public ModelBus {
 public:
  using ModelBus::ModelBus;
  unsigned interrupt_count() const override { return 0; }
};

/// A card that needs no run(): in another process, or on PCI.
class Elsewhere final : public ModelBus {
 public:
  using ModelBus::ModelBus;
  unsigned interrupt_count() const override { return 0; }
  bool needs_run() const override { return false; }
  bool uses_virtual_addresses() const override { return !on_pci; }

  bool on_pci = false;
};

class Interrupts : public DriverRig {
 protected:
  /// From now on the port has the interrupts of a PCI device with this kind of handle.
  void bind(rte_intr_handle_type type) {
    ethdev::Port& of_port = ethdev::port_of(&rte_eth_devices[port]);
    if (own_ == nullptr) own_ = std::exchange(of_port.own_interrupt_handle, nullptr);
    if (pci_ != nullptr) rte_intr_instance_free(pci_);
    pci_ = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
    ASSERT_NE(pci_, nullptr);
    rte_intr_type_set(pci_, type);
    rte_intr_fd_set(pci_, device_);  // a file that takes what is written
    of_port.dev->intr_handle = pci_;
  }
  /// The driver's line when a start with interrupts fails.
  std::string refused() {
    char* text = nullptr;
    size_t bytes = 0;
    FILE* const stream = open_memstream(&text, &bytes);
    rte_openlog_stream(stream);
    EXPECT_EQ(start({.rx_queues = 2, .rx_interrupts = true}), -ENOTSUP);
    rte_openlog_stream(nullptr);
    std::fclose(stream);
    std::string all = text;
    std::free(text);
    return all.substr(all.find("no interrupts"));
  }
  /// Like every port of a PCI card but its first.
  void bind_to_nothing() {
    bind(RTE_INTR_HANDLE_VFIO_MSIX);
    ethdev::port_of(&rte_eth_devices[port]).dev->intr_handle = nullptr;
  }
  void TearDown() override {
    if (own_ != nullptr) {
      ethdev::Port& of_port = ethdev::port_of(&rte_eth_devices[port]);
      of_port.own_interrupt_handle = of_port.dev->intr_handle = own_;
    }
    DriverRig::TearDown();
    rte_intr_instance_free(pci_);
    close(device_);
  }

 private:
  const int device_ = open("/dev/null", O_RDWR | O_CLOEXEC);
  rte_intr_handle* own_ = nullptr;
  rte_intr_handle* pci_ = nullptr;
};

/// igb_uio and uio_pci_generic have one interrupt for all, which the card's event queues do not use.
TEST_F(Interrupts, AreRefusedWhereThereIsOneVectorOrNone) {
  ASSERT_EQ(attach(), 0);
  for (const auto type : {RTE_INTR_HANDLE_UNKNOWN, RTE_INTR_HANDLE_UIO, RTE_INTR_HANDLE_UIO_INTX,
                          RTE_INTR_HANDLE_VFIO_LEGACY, RTE_INTR_HANDLE_VFIO_MSI}) {
    bind(type);
    EXPECT_EQ(start({.rx_queues = 2, .rx_interrupts = true}), -ENOTSUP) << type;
    ASSERT_EQ(start({.rx_queues = 2}), 0) << type;
    EXPECT_EQ(rte_eth_dev_rx_intr_enable(port, 0), -ENOTSUP) << type;
    ASSERT_EQ(rte_eth_dev_stop(port), 0);
  }
}

/// The reason depends on the bus: a card that is not on PCI cannot be bound to a kernel driver.
TEST_F(Interrupts, WhyThereAreNoneOnPci) {
  using testing::HasSubstr;
  auto made = std::make_unique<Elsewhere>(card::CardConfig{});
  Elsewhere* const card = made.get();
  ASSERT_EQ(attach_bus(std::move(made)), 0);
  card->on_pci = true;
  bind(RTE_INTR_HANDLE_UIO);
  EXPECT_THAT(refused(), HasSubstr("its kernel driver has no vectors for queues: bind the card to vfio-pci"));
  bind_to_nothing();
  EXPECT_THAT(refused(), HasSubstr("a PCI card's vectors are its first port's"));
}

TEST_F(Interrupts, WhyThereAreNoneElsewhere) {
  using testing::HasSubstr;
  ASSERT_EQ(attach_bus(std::make_unique<Mute>(card::CardConfig{})), 0);
  EXPECT_THAT(refused(), HasSubstr("a card in this process has no vectors: card=vfio-user has"));
  detach();
  ASSERT_EQ(attach_bus(std::make_unique<Elsewhere>(card::CardConfig{})), 0);
  EXPECT_THAT(refused(), HasSubstr("this card has no vectors"));
}

TEST_F(Interrupts, AreTriedWithMsiX) {
  ASSERT_EQ(attach(), 0);
  bind(RTE_INTR_HANDLE_VFIO_MSIX);
  EXPECT_EQ(start({.rx_queues = 2, .rx_interrupts = true}), -EIO) << "there is no device behind it";
  ASSERT_EQ(start({.rx_queues = 2}), 0);
}

TEST_F(Interrupts, AreRefusedByACardWithoutVectors) {
  ASSERT_EQ(attach_bus(std::make_unique<Mute>(card::CardConfig{})), 0);
  EXPECT_EQ(start({.rx_interrupts = true}), -ENOTSUP);
}

}  // namespace
}  // namespace mqnic::test
