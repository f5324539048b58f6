/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Opens the adapter that the command line names, asks about it, sees that what a new port does not
 * have yet is refused properly, and closes it. The third argument says whether it "listens". */
#include <dat2/udat.h>

#include <stdio.h>
#include <string.h>

static int failures;

static void expect(const char *what, DAT_RETURN got, DAT_RETURN_TYPE wanted)
{
    if (DAT_GET_TYPE(got) == wanted)
        return;
    printf("%s: 0x%x, wanted 0x%x\n", what, got, wanted);
    ++failures;
}

static void use(DAT_IA_HANDLE ia, DAT_EVD_HANDLE async_evd, const char *vendor, int listens)
{
    static char memory[64];
    DAT_REGION_DESCRIPTION region = {.for_va = memory};
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr;
    DAT_PROVIDER_ATTR provider;
    DAT_EVENT event;
    DAT_COUNT more;

    expect("ia_query",
           dat_ia_query(ia, &async_evd, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &provider),
           DAT_SUCCESS);
    if (strcmp(attr.vendor_name, vendor) != 0) {
        printf("vendor_name is '%s', wanted '%s'\n", attr.vendor_name, vendor);
        ++failures;
    }
    expect("evd_wait", dat_evd_wait(async_evd, 0, 1, &event, &more), DAT_TIMEOUT_EXPIRED);
    expect("pz_create", dat_pz_create(ia, &pz), DAT_MODEL_NOT_SUPPORTED);
    expect("evd_create for DTOs", dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd),
           DAT_MODEL_NOT_SUPPORTED);
    expect("lmr_create",
           dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof memory, pz,
                          DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, NULL, NULL, NULL, NULL, NULL),
           DAT_INVALID_HANDLE);
    expect("evd_create for requests", dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &evd),
           DAT_SUCCESS);
    expect("psp_create_any", dat_psp_create_any(ia, &qualifier, evd, DAT_PSP_CONSUMER_FLAG, &psp),
           listens ? DAT_SUCCESS : DAT_MODEL_NOT_SUPPORTED);
    if (listens)
        expect("psp_free", dat_psp_free(psp), DAT_SUCCESS);
    if (dat_ep_create(ia, pz, evd, evd, evd, NULL, &ep) == DAT_SUCCESS) {
        printf("ep_create succeeds\n");
        ++failures;
    }
    expect("evd_free", dat_evd_free(evd), DAT_SUCCESS);
}

int main(int argc, char **argv)
{
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia;
    DAT_RETURN opened;

    if (argc != 4)
        return 2;
    opened = dat_ia_open(argv[1], 8, &async_evd, &ia);
    expect("ia_open", opened, DAT_SUCCESS);
    if (opened != DAT_SUCCESS)
        return 1;
    use(ia, async_evd, argv[2], strcmp(argv[3], "listens") == 0);
    expect("ia_close", dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
    if (failures == 0)
        printf("opened, queried, closed\n");
    return failures == 0 ? 0 : 1;
}
